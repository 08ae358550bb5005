// Package place names what a lab owns on this machine, by the lab's number: a directory, bridges, taps, an
// nftables table and processes. It also removes all of them; the lab, its guard and the next lab of the same
// number share this code.
package place
