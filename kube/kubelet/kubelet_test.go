package kubelet

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// kubelet asks as kubelet's plugin manager does: a connection for each attempt, who the plugin is, whether the endpoint
// that it names serves, and then what became of it.
type kubelet struct {
	socket string
	refuse string // why it does not register; empty: it does
}

// attempt is one attempt of kubelet's; the error is that of a socket that does not answer.
func (k *kubelet) attempt(ctx context.Context) (*registerapi.PluginInfo, error) {
	conn, err := grpc.NewClient("passthrough:///"+k.socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := registerapi.NewRegistrationClient(conn)
	info, err := client.GetInfo(ctx, &registerapi.InfoRequest{})
	if err != nil {
		return nil, err
	}
	status := &registerapi.RegistrationStatus{PluginRegistered: k.refuse == "", Error: k.refuse}
	_, err = client.NotifyRegistrationStatus(ctx, status)
	return info, err
}

// sees tells whether kubelet's watch would find a socket.
func (k *kubelet) sees() bool {
	info, err := os.Lstat(k.socket)
	return !errors.Is(err, os.ErrNotExist) && info.Mode().Type() == os.ModeSocket
}
