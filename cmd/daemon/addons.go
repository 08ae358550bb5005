package daemon

import (
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/addons/token"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// TokenFlags keep calls of CSI-Addons to those who know a token.
type TokenFlags struct{ file string }

// Add adds the flag.
func (o *TokenFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&o.file, "addons-token-file", "", "`file` with a token that each call of CSI-Addons must have as the secret "+token.Key+", else it is UNAUTHENTICATED; without it, no token is needed")
}

// Check reads the file once: a process that could answer no call does not start.
func (o *TokenFlags) Check() error {
	if o.file == "" {
		return nil
	}
	if _, err := token.Read(o.file); err != nil {
		return exit.Usagef("--addons-token-file: %w", err)
	}
	return nil
}

// Interceptors are those of the socket's server.
func (o *TokenFlags) Interceptors() []grpc.UnaryServerInterceptor {
	if o.file == "" {
		return nil
	}
	return []grpc.UnaryServerInterceptor{token.Require(o.file)}
}
