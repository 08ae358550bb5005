package daemon

import (
	"net"
	"net/http"
	"net/netip"
)

// The metrics listener has no certificates and no passwords, and in a pod it is on the pod's address, which every other
// pod reaches. So what changes something or shows this process's memory is answered over loopback only, whatever the
// listener is bound to. An address of this host is not enough: a pod's packets may come from it after translation.

// fromLoopback tells whether a request came from this host, or this pod, itself and not through a proxy.
func fromLoopback(r *http.Request) bool {
	for _, proxied := range []string{"Forwarded", "X-Forwarded-For", "Via"} {
		if r.Header.Get(proxied) != "" {
			return false
		}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

// onlyLoopback answers 403 to whoever asks from elsewhere.
func onlyLoopback(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !fromLoopback(r) {
			http.Error(w, "profiles are answered over loopback only", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// reachedByLoopback tells whether a listener on an address is reached over loopback: it is bound to that, or to all addresses.
func reachedByLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" || host == "localhost" {
		return true // what is no address fails when it is listened on
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified())
}
