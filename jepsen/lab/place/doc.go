// Package place names what a lab owns on this machine, by the lab's number: a directory,
// bridges, taps, an nftables table and processes. It also removes all of it, so that the
// lab, its guard and the next lab of the same number do that with the same code.
package place
