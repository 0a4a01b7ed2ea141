//! Choosing a level: in a process of its own, since the choice is made once.

use gf::{GfError, Level, force_level, kernels};
use std::process::Command;

/// Set in the process that chooses.
const CHOOSES: &str = "STRIPELINE_TEST_CHOOSES_LEVEL";

#[test]
fn a_forced_level_stays() {
    if std::env::var_os(CHOOSES).is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let alone =
            alone.args(["--exact", "levels::a_forced_level_stays"]).env(CHOOSES, "").output().unwrap();
        let said = String::from_utf8_lossy(&alone.stdout);
        assert!(alone.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    force_level(Level::Scalar).unwrap();
    assert_eq!(kernels().level(), Level::Scalar);
    force_level(Level::Scalar).unwrap();
    for level in Level::available() {
        assert_eq!(level.to_string().parse(), Ok(level));
        if level != Level::Scalar {
            let refused = GfError::LevelChosen { wanted: level, chosen: Level::Scalar };
            assert_eq!(force_level(level), Err(refused));
        }
    }
    assert_eq!("mmx".parse::<Level>(), Err(GfError::UnknownLevel("mmx".into())));
}
