// Package access says who may call what. Table has a row for each method of every gRPC service that is served on a network
// listener, and the interceptors refuse what no row allows: a method without a row is for nobody.
//
// The services of CSI and CSI-Addons are served on sockets of the host, under its file modes, and not here.
package access
