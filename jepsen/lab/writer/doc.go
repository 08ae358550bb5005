// Command writer writes numbered blocks in a ring, each synced before the next, and says
// on a file of the host which of them were acknowledged; and it checks such a ring. It is
// how a scenario knows whether a volume lost an acknowledged write, and how long its
// writes were frozen.
//
//	writer write --path P --acks F [--direct] [--from N] [--stamp TEXT] [--blocks N]
//	writer check --path P --acked N [--direct] [--blocks N]
package main
