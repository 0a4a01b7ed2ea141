//! Budgets as messages.

use crate::proto;
use model::Budgets;

impl From<proto::Budgets> for Budgets {
    fn from(budgets: proto::Budgets) -> Budgets {
        Budgets {
            client: budgets.client_bytes_per_s,
            healing: budgets.healing_bytes_per_s,
            archival: budgets.archival_bytes_per_s,
        }
    }
}

impl From<Budgets> for proto::Budgets {
    fn from(budgets: Budgets) -> proto::Budgets {
        proto::Budgets {
            client_bytes_per_s: budgets.client,
            healing_bytes_per_s: budgets.healing,
            archival_bytes_per_s: budgets.archival,
        }
    }
}
