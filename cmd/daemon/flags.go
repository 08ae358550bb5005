package daemon

import (
	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/cmd/config"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// Flags are those that every daemon has.
type Flags struct {
	Log   LogFlags
	Files pki.Files
	// MetricsListen is where metrics and health are served, over plain HTTP.
	MetricsListen string
	// CSIEndpoint is the unix socket of the CSI services.
	CSIEndpoint string
	// Profile serves Go's profiles on the metrics listener too.
	Profile bool
}

// Add adds the flags to a command's.
func (f *Flags) Add(flags *pflag.FlagSet, metrics, endpoint string) {
	config.AddFlag(flags)
	f.Log.Add(flags)
	AddTLSFlags(flags, &f.Files)
	flags.StringVar(&f.MetricsListen, "metrics-listen", metrics, "`address` of the plain HTTP listener with /metrics, /healthz and /readyz: loopback, or the address of the pod where probes and Prometheus ask from elsewhere; what changes something is answered over loopback only")
	flags.BoolVar(&f.Profile, "pprof", false, "serve Go's profiles below /debug/pprof/ on the metrics listener, over loopback only")
	flags.StringVar(&f.CSIEndpoint, "csi-endpoint", endpoint, "unix socket of the CSI services, `unix:///path/name.sock`; CSI_ENDPOINT sets it too")
}

// Check validates combinations of flags.
func (f *Flags) Check() error {
	if f.Profile && !reachedByLoopback(f.MetricsListen) {
		return exit.Usagef("--pprof: profiles are answered over loopback only, which does not reach --metrics-listen %s: choose loopback, or all addresses as :9801", f.MetricsListen)
	}
	_, err := server.SocketPath(f.CSIEndpoint)
	return exit.Wrap(exit.Usage, err)
}

// AddTLSFlags adds the flags that name a certificate, its key and its CA.
func AddTLSFlags(flags *pflag.FlagSet, files *pki.Files) {
	flags.StringVar(&files.Cert, "cert", files.Cert, "`file` with this process's certificate, PEM, mode 0600 in a 0700 folder, or of a mounted Secret with defaultMode 0400")
	flags.StringVar(&files.Key, "key", files.Key, "`file` with the certificate's key, PEM, mode 0600 in a 0700 folder, or of a mounted Secret with defaultMode 0400")
	flags.StringVar(&files.CA, "ca", files.CA, "`file` with the cluster's CA certificate, PEM, mode 0600 in a 0700 folder, or of a mounted Secret with defaultMode 0400")
}
