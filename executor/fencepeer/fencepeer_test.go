package fencepeer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const volume = "hf-0190a0e2-7b1c-7e39-8d55-6f3b2a1c0d01"

func rootUID(*net.UnixConn) (uint32, error)   { return 0, nil }
func nobodyUID(*net.UnixConn) (uint32, error) { return 65534, nil }

func environment(resource string) func(string) string {
	return func(name string) string {
		return map[string]string{"DRBD_RESOURCE": resource, "DRBD_MINOR": "107"}[name]
	}
}

// serve answers at the socket until stop is called, or the test ends.
func serve(t *testing.T, socket string, ask DecideFunc) (stop func()) {
	t.Helper()
	s, err := Listen(socket, ask, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	s.peerUID = rootUID
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

func client(socket string, say *bytes.Buffer) *Client {
	return &Client{Socket: socket, Out: say, peerUID: rootUID}
}

func decideAlways(verdict fsmpb.Verdict) DecideFunc {
	return func(context.Context, fsm.VolumeID) (fsmpb.Verdict, error) { return verdict, nil }
}

func TestS6_EachVerdictHasItsExitCode(t *testing.T) {
	for name, tc := range map[string]struct {
		verdict  fsmpb.Verdict
		resource string
		want     int
	}{
		"the peer is outdated: go on":            {fsmpb.Verdict_VERDICT_PEER_OUTDATED, volume, 4},
		"this replica is outdated: it lost":      {fsmpb.Verdict_VERDICT_SELF_OUTDATED, volume, 6},
		"refused: stay frozen":                   {fsmpb.Verdict_VERDICT_REFUSED, volume, 1},
		"what is no volume is refused":           {fsmpb.Verdict_VERDICT_PEER_OUTDATED, "r0", 1},
		"without a resource the call is refused": {fsmpb.Verdict_VERDICT_PEER_OUTDATED, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s", "fence.sock")
			serve(t, socket, decideAlways(tc.verdict))
			for range 2 {
				require.Equal(t, tc.want, client(socket, &bytes.Buffer{}).FencePeer(environment(tc.resource)))
			}
		})
	}
}

func TestS6_WithoutAVerdictTheHandlerRetries(t *testing.T) {
	for name, none := range map[string]DecideFunc{
		"another generation is current": decideAlways(fsmpb.Verdict_VERDICT_STALE),
		"the verdict is not known":      decideAlways(fsmpb.Verdict_VERDICT_UNKNOWN),
		"a verdict of a later release":  decideAlways(fsmpb.Verdict(99)),
		"the log has no quorum": func(context.Context, fsm.VolumeID) (fsmpb.Verdict, error) {
			return fsmpb.Verdict_VERDICT_PEER_OUTDATED, errors.New("no quorum")
		},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s", "fence.sock")
			var asked atomic.Int32
			serve(t, socket, func(ctx context.Context, id fsm.VolumeID) (fsmpb.Verdict, error) {
				if asked.Add(1) < 4 {
					return none(ctx, id)
				}
				return fsmpb.Verdict_VERDICT_SELF_OUTDATED, nil
			})
			require.Equal(t, 6, client(socket, &bytes.Buffer{}).FencePeer(environment(volume)))
			require.EqualValues(t, 4, asked.Load())
		})
	}
}

func TestS6_TheHandlerOutlivesTheNodeProcess(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s", "fence.sock")
	code := make(chan int, 1)
	go func() { code <- client(socket, &bytes.Buffer{}).FencePeer(environment(volume)) }()

	asked := make(chan struct{})
	stop := serve(t, socket, func(ctx context.Context, _ fsm.VolumeID) (fsmpb.Verdict, error) {
		close(asked)
		<-ctx.Done() // this process ends in the middle of the question
		return 0, ctx.Err()
	})
	<-asked
	stop()
	require.Empty(t, code)

	serve(t, socket, decideAlways(fsmpb.Verdict_VERDICT_PEER_OUTDATED))
	require.Equal(t, 4, <-code)
}

func TestS6_SignalsDoNotEndTheHandler(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s", "fence.sock")
	code := make(chan int, 1)
	asked, release := make(chan struct{}), make(chan struct{})
	serve(t, socket, func(context.Context, fsm.VolumeID) (fsmpb.Verdict, error) {
		close(asked)
		<-release
		return fsmpb.Verdict_VERDICT_REFUSED, nil
	})
	go func() { code <- client(socket, &bytes.Buffer{}).FencePeer(environment(volume)) }()
	<-asked
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, self.Signal(os.Interrupt))
		require.NoError(t, self.Signal(syscall.SIGTERM))
	}
	require.Empty(t, code)
	close(release)
	require.Equal(t, 1, <-code)
}

func TestAHandlerThatDisconnectsCancelsItsRequest(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s", "fence.sock")
	asked, ended := make(chan struct{}), make(chan struct{})
	serve(t, socket, func(ctx context.Context, _ fsm.VolumeID) (fsmpb.Verdict, error) {
		close(asked)
		<-ctx.Done()
		close(ended)
		return 0, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, _ = client(socket, nil).request(ctx, request{Resource: volume}) }()
	<-asked
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the question goes on without its handler")
	}
}

func TestS13_OnlyRootIsAnswered(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "fence", "fence.sock")
	s, err := Listen(socket, decideAlways(fsmpb.Verdict_VERDICT_PEER_OUTDATED), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	s.peerUID = nobodyUID
	go func() { _ = s.Serve(t.Context()) }()
	c := client(socket, &bytes.Buffer{})
	for range 2 {
		_, err = c.request(t.Context(), request{Resource: volume})
		require.Error(t, err, "the connection is closed without an answer")
	}
	c.peerUID = nobodyUID
	_, err = c.request(t.Context(), request{Resource: volume})
	require.ErrorContains(t, err, "user 65534 is at the other end")
	info, err := os.Stat(filepath.Dir(socket))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestS13_TheSelfTestReportsWhetherTheNodeAnswers(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s", "fence.sock")
	c := client(socket, &bytes.Buffer{})
	require.ErrorContains(t, c.SelfTest(t.Context()), "ask the node process at "+socket)
	stop := serve(t, socket, decideAlways(fsmpb.Verdict_VERDICT_REFUSED))
	require.NoError(t, c.SelfTest(t.Context()))
	stop()
	require.Error(t, c.SelfTest(t.Context()))
}

func TestS13_AnEmptyFolderIsMadeRootsOnly(t *testing.T) {
	dir := t.TempDir() // as kubelet makes one for a pod
	require.NoError(t, os.Chmod(dir, 0o755))
	for range 2 {
		s, err := Listen(filepath.Join(dir, "fence.sock"), decideAlways(fsmpb.Verdict_VERDICT_REFUSED), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.NoError(t, s.listener.Close())
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}
}

// Whose folder it is can change its mode, and put a socket of his own there, whose verdicts the kernel would take.
func TestS13_AFolderOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to give a folder away needs root")
	}
	for _, mode := range []os.FileMode{0o700, 0o755} {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, mode))
		require.NoError(t, os.Chown(dir, 1000, 0))
		_, err := Listen(filepath.Join(dir, "fence.sock"), decideAlways(fsmpb.Verdict_VERDICT_REFUSED), slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "belongs to another user")
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
	}
}

func TestS13_AFolderThatOthersMayEnterIsRefusedAndLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "others"), nil, 0o600))
	require.NoError(t, os.Chmod(dir, 0o755))
	for range 2 {
		_, err := Listen(filepath.Join(dir, "fence.sock"), decideAlways(fsmpb.Verdict_VERDICT_REFUSED), slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "chmod 0700 "+dir)
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	}
}

func TestPeerUserIsWhoConnected(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "fence.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	uid, err := peerUID(conn)
	require.NoError(t, err)
	require.EqualValues(t, os.Getuid(), uid)
}
