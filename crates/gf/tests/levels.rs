//! Choosing a level: a process of its own, since the choice is made once.

use gf::{GfError, Level, force_level, kernels};

#[test]
fn a_forced_level_stays() {
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
