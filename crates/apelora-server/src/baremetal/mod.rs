//! The handlers of the Bare Metal API: read the request, call one service, render its answer.

mod all_entries;
mod drivers;
mod history;
mod listing;
mod maintenance;
mod nodes;
mod root;

use crate::Microversion;
use crate::app::{App, Context};
use crate::cluster;
use crate::endpoints::{Endpoint, Operation};
use crate::error::ApiError;
use crate::node::render::View;
use crate::reply::Success;
use crate::request::Request;
use crate::route::{Ident, Route};

/// The largest page of a list.
pub(crate) const PAGE_MAX: u32 = 1_000;

/// What a handler works with.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) app: &'a App,
    pub(crate) cx: Context<'a>,
    pub(crate) request: &'a Request,
    pub(crate) route: &'a Route,
    /// `http://host:port`, as the client called it.
    pub(crate) base: &'a str,
    /// The highest served version.
    pub(crate) max: Microversion,
}

impl Call<'_> {
    /// How nodes are shown in the answer.
    fn view(&self) -> View<'_> {
        View {
            version: self.cx.version,
            base: self.base,
            host: self.app.host(),
            held: false,
            caller: self.cx.caller,
        }
    }

    /// The ident in the path.
    fn ident(&self) -> Result<&Ident, ApiError> {
        match self.route {
            Route::Node(ident)
            | Route::Maintenance(ident)
            | Route::MaintenanceEntry(ident, _)
            | Route::History(ident)
            | Route::HistoryRecord(ident, _)
            | Route::States(ident)
            | Route::StateChange(ident, _)
            | Route::NodePart(ident, _)
            | Route::TooDeep(ident)
            | Route::NodeRest(ident) => Ok(ident),
            _ => Err(ApiError::no_resource()),
        }
    }

    /// The last variable part of the path, behind the ident.
    fn tail(&self) -> &str {
        match self.route {
            Route::MaintenanceEntry(_, tail)
            | Route::HistoryRecord(_, tail)
            | Route::StateChange(_, tail)
            | Route::NodePart(_, tail)
            | Route::Driver(tail) => tail,
            _ => "",
        }
    }

    /// Does what the endpoint is for.
    pub(crate) async fn answer(&self, endpoint: Option<&Endpoint>) -> Result<Success, ApiError> {
        let Some(endpoint) = endpoint else { return nodes::refuse(self).await };
        match endpoint.operation {
            Operation::ShowRoot => Ok(root::root(self)),
            Operation::ShowVersion => root::version(self),
            Operation::ListNodes => listing::list(self).await,
            Operation::ListNodesInDetail => listing::list_in_detail(self).await,
            Operation::CreateNode => nodes::create(self).await,
            Operation::ShowNode => nodes::show(self).await,
            Operation::UpdateNode => nodes::update(self).await,
            Operation::DeleteNode => nodes::delete(self).await,
            Operation::SetMaintenance => maintenance::set(self).await,
            Operation::ClearMaintenance => maintenance::clear(self).await,
            Operation::ListEntries => maintenance::list(self).await,
            Operation::AddEntry => maintenance::add(self).await,
            Operation::ShowEntry => maintenance::show(self).await,
            Operation::ReleaseEntry => maintenance::release(self).await,
            Operation::ListAllEntries => all_entries::list(self).await,
            Operation::ListHistory => history::list(self).await,
            Operation::ShowHistoryRecord => history::show(self).await,
            Operation::ShowStates => nodes::states(self).await,
            Operation::ChangeState => nodes::refuse_state(self).await,
            Operation::ListDrivers => drivers::list(self),
            Operation::ShowDriver => drivers::show(self),
            Operation::ListMembers
            | Operation::ShowMember
            | Operation::ExplainMember
            | Operation::ConfirmMemberOff
            | Operation::TrustMember
            | Operation::ListFenceRecords
            | Operation::ShowFenceRecord
            | Operation::ListAudit
            | Operation::ShowSettings => cluster::answer(self).await,
        }
    }
}
