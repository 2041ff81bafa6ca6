//! Both ends of a channel without Python: a server's driver, and workers that work, fail, hang, die or lie.

mod ending;
mod lying;
mod support;
mod working;
