package daemon

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// Listen opens a TCP listener. what and flag name it in the error.
func Listen(ctx context.Context, what, flag, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, exit.Unavailablef("listen for %s on %s: the port is in use; stop what uses it or choose another with --%s", what, address, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EACCES):
		return nil, exit.Usagef("listen for %s on %s: %w; choose another with --%s", what, address, err, flag)
	}
	return nil, exit.Usagef("listen for %s: %w; --%s takes host:port", what, err, flag)
}

// LoadCredentials reads the certificate that a command was given and checks its role.
func LoadCredentials(files pki.Files, role pki.Role) (*pki.Credentials, error) {
	for _, given := range []struct{ flag, path string }{{"cert", files.Cert}, {"key", files.Key}, {"ca", files.CA}} {
		if given.path == "" {
			return nil, exit.Usagef("load the certificate: --%s is not set; `holdfast ca issue` makes the files of a role", given.flag)
		}
	}
	creds, err := pki.Load(files)
	if err != nil {
		return nil, exit.Usagef("load the certificate: %w", err)
	}
	if got := creds.Identity().Role; got != role {
		return nil, exit.Usagef("load the certificate: %s has the role %s, and %s is needed; issue one with `holdfast ca issue`", files.Cert, got, role)
	}
	return creds, nil
}
