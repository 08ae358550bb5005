// Command writer writes numbered blocks in a ring, each synced before the next, and records in a file of the
// host which of them were acknowledged; it also checks such a ring. With it a scenario knows whether a volume
// lost an acknowledged write, and for how long its writes were suspended.
//
//	writer write --path P --acks F [--direct] [--durable fdatasync|dsync|aio] [--from N] [--stamp TEXT] [--blocks N] [--eager N --pause D]
//	writer check --path P --acked N [--direct] [--blocks N]
//	writer scan --path P [--direct] [--bytes N]
//	writer fill --path POOL --from N [--most N]
//	writer empty --path POOL --from N
//
// scan prints all blocks that it finds, wherever they are, and checksums: a replica's device is read with it.
// fill takes all metadata of a thin pool, or some, by thin devices numbered from N on, empty gives it back.
package main
