package kubelet

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/holdfast-storage/holdfast/csi/identity"
	"github.com/holdfast-storage/holdfast/csi/server"
)

// soon is how long something may take that happens within milliseconds on an idle machine.
const soon = 30 * time.Second

// plugin is a node process as far as kubelet sees it.
type plugin struct {
	*Registration
	kubelet *kubelet
	stop    func()
}

// csiServer is a CSI socket that answers once asked is closed; nil: at once.
type csiServer struct {
	csi.UnimplementedIdentityServer
	name    string
	arrived chan struct{}
	answer  chan struct{}
	once    sync.Once
}

func (c *csiServer) GetPluginInfo(ctx context.Context, _ *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	if c.answer != nil {
		c.once.Do(func() { close(c.arrived) })
		select {
		case <-c.answer:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &csi.GetPluginInfoResponse{Name: c.name, VendorVersion: "1"}, nil
}

// folder is short: a socket's path is bounded.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func serveCSI(t *testing.T, dir string, c *csiServer) string {
	t.Helper()
	path := filepath.Join(dir, "csi.sock")
	socket, err := server.ListenSocket(path)
	require.NoError(t, err)
	calls := grpc.NewServer()
	csi.RegisterIdentityServer(calls, c)
	go func() { _ = calls.Serve(socket) }()
	t.Cleanup(calls.Stop)
	return path
}

// start starts a plugin whose sockets are in the folder.
func start(t *testing.T, dir, csiSocket string) *plugin {
	t.Helper()
	r, err := New(Config{
		Socket: filepath.Join(dir, "csi.holdfast.storage-reg.sock"), CSISocket: csiSocket, Endpoint: "/elsewhere/csi.sock",
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	r.every = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	stop := func() { cancel(); <-ended }
	t.Cleanup(stop)
	return &plugin{Registration: r, kubelet: &kubelet{socket: r.cfg.Socket}, stop: stop}
}

// register has kubelet register the plugin as soon as it sees its socket.
func (p *plugin) register(t *testing.T) {
	t.Helper()
	require.Eventually(t, p.kubelet.sees, soon, time.Millisecond)
	info, err := p.kubelet.attempt(t.Context())
	require.NoError(t, err)
	require.Equal(t, registerapi.CSIPlugin, info.GetType())
	require.Equal(t, "csi.holdfast.storage", info.GetName())
	require.Equal(t, "/elsewhere/csi.sock", info.GetEndpoint())
	require.Equal(t, []string{"1.0.0"}, info.GetSupportedVersions())
	require.NoError(t, p.Err())
}

func TestKubeletRegistersTheDriverAsOftenAsItRestarts(t *testing.T) {
	dir := folder(t)
	p := start(t, dir, serveCSI(t, dir, &csiServer{name: identity.Name}))
	require.ErrorContains(t, p.Err(), "plugins_registry below its root folder")
	for range 3 { // each attempt is a connection of its own, as after kubelet's restart
		p.register(t)
	}
	info, err := os.Stat(p.kubelet.socket)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o600, info.Mode())
	require.InDelta(t, 3, testutil.ToFloat64(p.outcomes.WithLabelValues(registered)), 0)
}

func TestThePluginRestartsAndIsRegisteredAgain(t *testing.T) {
	dir := folder(t)
	csiSocket := serveCSI(t, dir, &csiServer{name: identity.Name})
	for range 3 {
		p := start(t, dir, csiSocket)
		p.register(t)
		p.stop()
		require.NoFileExists(t, p.kubelet.socket, "kubelet sees that it is gone")
	}
}

func TestThePluginWasKilledAndIsRegisteredAgain(t *testing.T) {
	dir := folder(t)
	csiSocket := serveCSI(t, dir, &csiServer{name: identity.Name})
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "csi.holdfast.storage-reg.sock")})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	p := start(t, dir, csiSocket)
	require.Eventually(t, func() bool {
		_, err := p.kubelet.attempt(t.Context()) // it fails while the socket is the dead one's
		return err == nil
	}, soon, time.Millisecond)
	p.register(t)
}

func TestARefusalIsToldUntilKubeletRegisters(t *testing.T) {
	dir := folder(t)
	p := start(t, dir, serveCSI(t, dir, &csiServer{name: identity.Name}))
	require.Eventually(t, p.kubelet.sees, soon, time.Millisecond)
	p.kubelet.refuse = "no such\ndriver" + strings.Repeat("x", 2*maxReason)
	for range 2 {
		_, err := p.kubelet.attempt(t.Context())
		require.NoError(t, err)
		require.ErrorContains(t, p.Err(), `kubelet refused to register this driver with the socket /elsewhere/csi.sock: "no such\ndriver`)
		require.NotContains(t, p.Err().Error(), "\n")
		require.Less(t, len(p.Err().Error()), maxReason+200)
	}
	require.InDelta(t, 2, testutil.ToFloat64(p.outcomes.WithLabelValues(refused)), 0)
	p.kubelet.refuse = ""
	p.register(t)
}

func TestASocketThatACleanerRemovedIsMadeAgain(t *testing.T) {
	dir := folder(t)
	p := start(t, dir, serveCSI(t, dir, &csiServer{name: identity.Name}))
	for range 3 {
		p.register(t)
		require.NoError(t, os.Remove(p.kubelet.socket))
		require.Eventually(t, func() bool { return p.Err() != nil }, soon, time.Millisecond, "kubelet has forgotten the driver")
	}
	p.register(t)
}

// What is in the way is not the plugin's to remove. It serves when that is gone.
func TestWhatIsInTheWayStays(t *testing.T) {
	for name, tc := range map[string]struct {
		block   func(t *testing.T, path string) (unblock func() error)
		problem string
	}{
		"a socket that another process serves": {problem: "another process serves this socket", block: func(t *testing.T, path string) func() error {
			other, err := server.ListenSocket(path)
			require.NoError(t, err)
			return other.Close
		}},
		"a file": {problem: "is no socket", block: func(t *testing.T, path string) func() error {
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			return func() error { return os.Remove(path) }
		}},
		"no folder": {problem: "open the socket's folder", block: func(t *testing.T, path string) func() error {
			require.NoError(t, os.Remove(filepath.Dir(path)))
			return func() error { return os.Mkdir(filepath.Dir(path), 0o700) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			csiSocket := serveCSI(t, dir, &csiServer{name: identity.Name})
			registry := filepath.Join(dir, "reg")
			require.NoError(t, os.Mkdir(registry, 0o700))
			path := filepath.Join(registry, "csi.holdfast.storage-reg.sock")
			unblock := tc.block(t, path)
			before, _ := os.Lstat(path)
			p := start(t, registry, csiSocket)
			require.Eventually(t, func() bool { return strings.Contains(p.Err().Error(), tc.problem) }, soon, time.Millisecond)
			if before != nil {
				after, err := os.Lstat(path)
				require.NoError(t, err)
				require.True(t, os.SameFile(before, after))
			}
			require.NoError(t, unblock())
			p.register(t)
		})
	}
}

// Kubelet calls CSI when it sees the registration: there is none before CSI answers, nor for another driver's socket.
func TestThereIsNoSocketBeforeCSIAnswers(t *testing.T) {
	dir := folder(t)
	c := &csiServer{name: "csi.example.org", arrived: make(chan struct{}), answer: make(chan struct{})}
	p := start(t, dir, serveCSI(t, dir, c))
	<-c.arrived
	require.NoFileExists(t, p.kubelet.socket)
	close(c.answer)
	require.Eventually(t, func() bool { return strings.Contains(p.Err().Error(), `served by the driver "csi.example.org"`) }, soon, time.Millisecond)
	require.NoFileExists(t, p.kubelet.socket)
	p.stop()

	late := &csiServer{name: identity.Name, arrived: make(chan struct{}), answer: make(chan struct{})}
	second := folder(t)
	p = start(t, dir, serveCSI(t, second, late))
	<-late.arrived
	require.NoFileExists(t, p.kubelet.socket)
	close(late.answer)
	p.register(t)
}

func TestCheckSocket(t *testing.T) {
	require.NoError(t, CheckSocket("/var/lib/kubelet/plugins_registry/csi.holdfast.storage-reg.sock"))
	for path, problem := range map[string]string{
		"":                                      "not an absolute path",
		"reg.sock":                              "not an absolute path",
		"/r/.reg.sock":                          "begins with a dot",
		"/r/reg":                                "must end with .sock",
		strings.Repeat("/dd", 40):               "must end with .sock",
		strings.Repeat("/dd", 40) + "/reg.sock": "the kernel allows 107",
	} {
		require.ErrorContains(t, CheckSocket(path), problem, path)
		_, err := New(Config{Socket: path})
		require.ErrorContains(t, err, problem, path)
	}
}
