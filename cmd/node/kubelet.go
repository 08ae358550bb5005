package node

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/kube/kubelet"
)

// kubeletFlags say where this node registers itself with this host's kubelet.
type kubeletFlags struct{ registration, csiPath string }

func (f *kubeletFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.registration, "kubelet-registration", "", "`path` of a socket at which this host's kubelet registers this node's CSI socket, in the folder plugins_registry below kubelet's root folder; empty: none. /readyz says when kubelet has not registered it")
	flags.StringVar(&f.csiPath, "kubelet-csi-path", "", "`path` of the CSI socket as kubelet sees it, where that is not --csi-endpoint's")
}

// check refuses what kubelet would not find. csiEndpoint is --csi-endpoint.
func (f *kubeletFlags) check(csiEndpoint string) error {
	if f.registration == "" {
		if f.csiPath != "" {
			return exit.Usagef("--kubelet-csi-path is for kubelet, which is told by --kubelet-registration only: set that too")
		}
		return nil
	}
	if err := kubelet.CheckSocket(f.registration); err != nil {
		return exit.Usagef("--kubelet-registration: %w", err)
	}
	own, err := server.SocketPath(csiEndpoint)
	switch {
	case err != nil:
		return exit.Wrap(exit.Usage, err)
	case filepath.Clean(own) == filepath.Clean(f.registration):
		return exit.Usagef("--kubelet-registration %s is the CSI socket itself: choose a path in kubelet's folder plugins_registry", f.registration)
	case f.csiPath != "" && !filepath.IsAbs(f.csiPath):
		return exit.Usagef("--kubelet-csi-path %q is not an absolute path", f.csiPath)
	case f.csiPath == "" && !filepath.IsAbs(own):
		return exit.Usagef("--csi-endpoint %s is not an absolute path, which kubelet needs", csiEndpoint)
	}
	return nil
}

// openRegistration prepares the registration with kubelet.
func (n *node) openRegistration() (err error) {
	if n.kubeletFlags.registration == "" {
		return nil
	}
	path, err := server.SocketPath(n.CSIEndpoint)
	if err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	n.registration, err = kubelet.New(kubelet.Config{
		Socket: n.kubeletFlags.registration, CSISocket: path, Endpoint: n.kubeletFlags.csiPath, Log: n.log, Metrics: n.registry,
	})
	return err
}

// serveRegistration serves kubelet until ctx ends.
func (n *node) serveRegistration(ctx context.Context) {
	if n.registration != nil {
		n.registration.Run(ctx)
	}
}

// readyz is why this node does not serve: it is in no session, or kubelet does not know it.
func (n *node) readyz() error {
	if n.registration == nil {
		return n.client.Err()
	}
	return errors.Join(n.client.Err(), n.registration.Err())
}
