// Package relay passes connections on and spoils them on the way: late, slowly, in fits and starts, twice, or with a reset. It is for
// kernels that have no netem, and for what netem does not do.
//
// A relay (relay.go) accepts connections, asks where each was meant to go, connects there and copies both ways. What it does
// to the bytes is its weather (weather.go), which may change while connections are open.
package relay
