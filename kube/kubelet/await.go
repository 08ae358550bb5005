package kubelet

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/csi/identity"
)

// csiTimeout bounds one question whether CSI is served.
const csiTimeout = 10 * time.Second

// awaitCSI returns when the CSI socket answers as this driver: kubelet calls it in the moment in which it sees the
// registration, and waits up to two minutes with the next attempt when nobody answers.
func (r *Registration) awaitCSI(ctx context.Context) (err error) {
	again := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: r.every, Multiplier: 1, MaxDelay: r.every}, MinConnectTimeout: csiTimeout}
	conn, err := grpc.NewClient("unix:"+r.cfg.CSISocket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(again))
	if err != nil {
		return fmt.Errorf("connect to the CSI socket %s: %w", r.cfg.CSISocket, err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, csiTimeout)
	defer cancel()
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	switch {
	case err != nil:
		return fmt.Errorf("ask the CSI socket %s who serves it: %w", r.cfg.CSISocket, err)
	case info.GetName() != identity.Name:
		return fmt.Errorf("the CSI socket %s is served by the driver %q", r.cfg.CSISocket, info.GetName())
	}
	return nil
}
