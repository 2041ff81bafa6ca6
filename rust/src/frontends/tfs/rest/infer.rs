//! `POST …:classify` and `POST …:regress`.

use http::Response;

use super::route::Action;
use super::{Posted, counted, signed};
use crate::error::Result;
use crate::frontends::body::Answer;
use crate::frontends::rest::json;
use crate::frontends::tfs::examples::with_context;
use crate::frontends::tfs::inference::{Asked, classify, regress};
use crate::frontends::tfs::json::{Examples, parse_examples, write_classes, write_values};
use crate::telemetry::Api;

pub async fn answer(posted: &Posted<'_>) -> Result<Response<Answer>> {
    let Posted { state, route, arrived, deadline, .. } = *posted;
    let classifies = route.action == Action::Classify;
    let parsed = parse_examples(&posted.body, if classifies { "classify" } else { "regress" });
    let Examples { signature, context, examples } = counted(state, &route.model, parsed)?;
    let lease = counted(state, &route.model, state.routes.resolve(&route.model, &route.choice))?;
    let examples = with_context(&context, examples);
    let timing = &posted.timing;
    let asked = Asked { lease: &lease, signature: &signature, api: Api::TfsRest, arrived, deadline, timing };
    let style = posted.wishes.style;
    let body = if classifies {
        write_classes(style, &classify(&asked, examples).await?)?
    } else {
        write_values(style, &regress(&asked, examples).await?)?
    };
    Ok(signed(json(body), &route.model, lease.version().number, asked.signature()))
}
