//! Queues, batches and the policies over them. No sockets and no Python here.
