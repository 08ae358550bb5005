package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/encryptionkeyrotation"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-storage/holdfast/fsm"
)

func protoMessage(name protoreflect.Name) protoreflect.MessageType {
	kind, err := protoregistry.GlobalTypes.FindMessageByName("csi.v1." + protoreflect.FullName(name))
	if err != nil {
		panic(err)
	}
	return kind
}

// service answers DeleteVolume with a function.
type service struct {
	csi.UnimplementedControllerServer
	answer func(context.Context, *csi.DeleteVolumeRequest) error
}

func (s *service) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, s.answer(ctx, req)
}

// CreateVolume answers like the other calls: its request has secrets and capabilities, as that of
// NodeStageVolume has.
func (s *service) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{}, s.answer(ctx, &csi.DeleteVolumeRequest{VolumeId: req.GetName()})
}

func (s *service) ControllerPublishVolume(ctx context.Context, req *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	return &csi.ControllerPublishVolumeResponse{}, s.answer(ctx, &csi.DeleteVolumeRequest{VolumeId: req.GetVolumeId()})
}

type buffer struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.String()
}

type testServer struct {
	csi.ControllerClient
	conn    *grpc.ClientConn
	logs    *buffer
	metrics *prometheus.Registry
}

const (
	waitLimit = time.Minute
	waitStep  = time.Millisecond
)

func start(t *testing.T, answer func(context.Context, *csi.DeleteVolumeRequest) error, stream ...func(context.Context, *csi.GetMetadataAllocatedRequest) error) *testServer {
	t.Helper()
	path := filepath.Join(socketDir(t), "csi.sock")
	listener, err := Listen(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoFileExists(t, path) })
	return startOn(t, listener, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}, answer, stream...)
}

// startInMemory needs no kernel, so that a test may run under a clock of its own.
func startInMemory(t *testing.T, answer func(context.Context, *csi.DeleteVolumeRequest) error) *testServer {
	t.Helper()
	listener := bufconn.Listen(64 << 10)
	return startOn(t, listener, listener.DialContext, answer)
}

func startOn(t *testing.T, listener net.Listener, dial func(context.Context) (net.Conn, error),
	answer func(context.Context, *csi.DeleteVolumeRequest) error, stream ...func(context.Context, *csi.GetMetadataAllocatedRequest) error) *testServer {
	t.Helper()
	h := &testServer{logs: &buffer{}, metrics: prometheus.NewRegistry()}
	g, err := New(Config{
		Logger:  slog.New(slog.NewJSONHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: h.metrics, Timeout: time.Minute,
	})
	require.NoError(t, err)
	csi.RegisterControllerServer(g, &service{answer: answer})
	for _, answer := range stream {
		csi.RegisterSnapshotMetadataServer(g, &streams{answer: answer})
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, g, listener) }()
	h.conn, err = grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
	require.NoError(t, err)
	h.ControllerClient = csi.NewControllerClient(h.conn)
	t.Cleanup(func() {
		require.NoError(t, h.conn.Close())
		cancel()
		require.NoError(t, <-ended)
	})
	return h
}

func ok(context.Context, *csi.DeleteVolumeRequest) error { return nil }

// CSI-GEN-Error-01..04, -11: whatever a handler says becomes a plain status.
func TestErrorsBecomePlainStatuses(t *testing.T) {
	detailed, err := status.New(codes.NotFound, "gone").WithDetails(durationpb.New(time.Second))
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		err  error
		want codes.Code
		text string
	}{
		"a rejection":            {fsm.Reject(fsm.InUse, "volume v is in use"), codes.FailedPrecondition, "volume v is in use"},
		"a status with details":  {detailed.Err(), codes.NotFound, "gone"},
		"any other error":        {errors.New("disk on fire"), codes.Internal, "disk on fire"},
		"a code from nowhere":    {status.Error(200, "odd"), codes.Internal, "odd"},
		"a status without text":  {status.Error(codes.Aborted, ""), codes.Aborted, "the call failed without saying why"},
		"an error of the member": {fmt.Errorf("propose: %w", context.DeadlineExceeded), codes.Aborted, "propose: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, func(context.Context, *csi.DeleteVolumeRequest) error { return tc.err })
			_, err := h.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "v"})
			require.Equal(t, tc.want, status.Code(err))
			require.Equal(t, tc.text, status.Convert(err).Message())
			require.Empty(t, status.Convert(err).Details())
		})
	}
}

// TestPanicIsInternal: one call fails, the process goes on, and the log has the place.
func TestPanicIsInternal(t *testing.T) {
	h := start(t, func(_ context.Context, req *csi.DeleteVolumeRequest) error {
		if req.GetVolumeId() == "panic" {
			panic("canary-secret in a panic")
		}
		return nil
	})
	_, err := h.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "panic", Secrets: map[string]string{"k": "canary-secret"}})
	require.Equal(t, codes.Internal, status.Code(err))
	require.NotContains(t, err.Error(), "canary")
	_, err = h.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "v"})
	require.NoError(t, err)
	require.Contains(t, h.logs.String(), "a call panicked")
	require.Contains(t, h.logs.String(), "server_test.go")
	require.NotContains(t, h.logs.String(), "canary")
}

// CSI-GEN-Size-01: what breaks a limit does not reach a handler.
func TestLimitsAreCheckedFirst(t *testing.T) {
	h := start(t, func(context.Context, *csi.DeleteVolumeRequest) error { panic("reached") })
	_, err := h.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: strings.Repeat("v", 129)})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	_, err = h.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{Secrets: map[string]string{"k": strings.Repeat("v", 5<<20)}})
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "above gRPC's 4 MiB")
}

// TestDeadline: a handler's deadline leaves time to answer.
func TestDeadline(t *testing.T) {
	for name, tc := range map[string]struct {
		given time.Duration // 0: none
		want  time.Duration // that the handler has
	}{
		"a tenth before a short one":      {4 * time.Second, 3600 * time.Millisecond},
		"half a second before a long one": {time.Hour, time.Hour - 500*time.Millisecond},
		"the server's without one":        {0, 59500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var left time.Duration
				h := startInMemory(t, func(ctx context.Context, _ *csi.DeleteVolumeRequest) error {
					end, has := ctx.Deadline()
					if !has {
						return errors.New("no deadline")
					}
					left = time.Until(end)
					return nil
				})
				ctx := t.Context()
				if tc.given > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.given)
					defer cancel()
				}
				_, err := h.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: "v"})
				require.NoError(t, err)
				require.Equal(t, tc.want, left)
			})
		})
	}
}

// TestAnswerComesBeforeTheDeadline: a handler that waits for its context can still answer.
func TestAnswerComesBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startInMemory(t, func(ctx context.Context, _ *csi.DeleteVolumeRequest) error {
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := h.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: "v"})
		require.NoError(t, ctx.Err())
		require.Equal(t, codes.Aborted, status.Code(err))
	})
}

// A line of the log names what a call is about and what it made, and no secret.
func TestLogNamesTheVolume(t *testing.T) {
	var log bytes.Buffer
	interceptor := logCalls(slog.New(slog.NewTextHandler(&log, nil)))
	for _, c := range []struct {
		req, resp any
		want      []string
	}{
		{&csi.CreateVolumeRequest{Name: "pvc-1"}, &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "hf-1"}}, []string{"name=pvc-1", "volume_id=hf-1"}},
		{&csi.CreateVolumeRequest{Name: "pvc-1"}, (*csi.CreateVolumeResponse)(nil), []string{"name=pvc-1"}},
		{&csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: "hf-2"}, &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{SnapshotId: "hs-1"}}, []string{"name=s", "source_volume_id=hf-2", "snapshot_id=hs-1"}},
		{&csi.DeleteSnapshotRequest{SnapshotId: "hs-1"}, &csi.DeleteSnapshotResponse{}, []string{"snapshot_id=hs-1"}},
		{&csi.CreateVolumeGroupSnapshotRequest{Name: "g"}, &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: &csi.VolumeGroupSnapshot{GroupSnapshotId: "hgs-1"}}, []string{"name=g", "group_snapshot_id=hgs-1"}},
		{&csi.CreateVolumeRequest{Name: "is-hunter2", Secrets: map[string]string{"key": "hunter2"}}, &csi.CreateVolumeResponse{}, []string{"name=is-" + redactedText}},
		{&csi.CreateVolumeRequest{Name: strings.Repeat("n", 200)}, &csi.CreateVolumeResponse{}, []string{strings.Repeat("n", 100)}},
	} {
		log.Reset()
		_, err := interceptor(t.Context(), c.req, &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Controller/Create"}, func(context.Context, any) (any, error) { return c.resp, nil })
		require.NoError(t, err)
		for _, want := range c.want {
			require.Contains(t, log.String(), want)
		}
		require.NotContains(t, log.String(), "hunter2")
		require.NotContains(t, log.String(), strings.Repeat("n", 129))
	}
}

// CSI-GEN-Secrets-06, -07, CSI-OPS-Sec-03, CSI-OPS-Oper-04: no canary gets into the log, a
// status or a metric, not even when a handler quotes it.
func TestNothingSensitiveIsShown(t *testing.T) {
	const canary = "canary-7f3a"
	h := start(t, func(_ context.Context, req *csi.DeleteVolumeRequest) error {
		return fmt.Errorf("mount -o pass=%s with %s and %s: exit 32", canary+"-flag", canary+"-token", canary+"-secret")
	})
	capability := &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: []string{"pass=" + canary + "-flag"}}}}
	_, err := h.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: "v-shown", NodeId: "n1", VolumeCapability: capability,
		Secrets: map[string]string{"key": canary + "-secret"},
		VolumeContext: map[string]string{
			"csi.storage.k8s.io/serviceAccount.tokens": canary + "-token",
		},
	})
	require.Error(t, err)
	_, err = h.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: "named", VolumeCapabilities: []*csi.VolumeCapability{capability},
		Secrets:    map[string]string{"key": canary + "-secret"},
		Parameters: map[string]string{"encryptionPassphrase": canary + "-token", "fsType": "shown-xfs"},
	})
	require.Error(t, err)
	require.NotContains(t, err.Error(), canary)
	require.Contains(t, err.Error(), "exit 32")

	log := h.logs.String()
	require.NotContains(t, log, canary)
	require.Contains(t, log, "shown-xfs")
	require.Contains(t, log, "v-shown")
	metrics, err := testutil.CollectAndFormat(h.metrics, expfmt.TypeTextPlain, "holdfast_csi_calls_total")
	require.NoError(t, err)
	require.NotContains(t, string(metrics), canary)
}

func TestRedacted(t *testing.T) {
	text := Redacted{&csi.NodePublishVolumeRequest{
		VolumeId: "v", Secrets: map[string]string{"a": "hide-1"},
		PublishContext: map[string]string{"holdfast.storage/epoch": "1.22", "other": "hide-2"},
		VolumeContext:  map[string]string{"x": "hide-3"},
	}}.String()
	require.NotContains(t, text, "hide")
	require.Contains(t, text, "1.22")
	require.Contains(t, text, `"volume_id":"v"`)
	require.Equal(t, redactedText, Redacted{"no message"}.String())
	rotate := &encryptionkeyrotation.EncryptionKeyRotateRequest{VolumeId: "v", EncryptionKey: "hide-4", Secrets: map[string]string{"a": "hide-5"}}
	require.NotContains(t, Redacted{rotate}.String(), "hide")
	require.Equal(t, "v and "+redactedText, removeSensitive("v and hide-4", rotate), "a secret that is no map")
}

// TestCallsAreLoggedAndCounted: an id, the volume, the code, and a latency.
func TestCallsAreLoggedAndCounted(t *testing.T) {
	var id string
	h := start(t, func(ctx context.Context, req *csi.DeleteVolumeRequest) error {
		id = RequestID(ctx)
		if req.GetVolumeId() == "bad" {
			return fsm.Reject(fsm.InUse, "in use")
		}
		return nil
	})
	for _, volume := range []string{"v1", "v1", "bad"} {
		_, _ = h.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: volume})
	}
	require.Len(t, id, 16)
	require.NoError(t, testutil.GatherAndCompare(h.metrics, strings.NewReader(`
# HELP holdfast_csi_calls_total CSI calls answered, by method and gRPC code.
# TYPE holdfast_csi_calls_total counter
holdfast_csi_calls_total{code="FailedPrecondition",method="DeleteVolume"} 1
holdfast_csi_calls_total{code="OK",method="DeleteVolume"} 2
`), "holdfast_csi_calls_total"))
	count, err := testutil.GatherAndCount(h.metrics, "holdfast_csi_call_duration_seconds")
	require.NoError(t, err)
	require.Equal(t, 1, count)
	log := h.logs.String()
	require.Contains(t, log, `"request_id":"`+id+`"`)
	require.Contains(t, log, `"volume_id":"bad"`)
	require.Contains(t, log, `"code":"FailedPrecondition"`)
	require.Contains(t, log, `"duration":`)
	require.Empty(t, RequestID(t.Context()))
}

// TestRunLetsCallsFinish: what is under way when the process is told to stop is answered.
func TestRunLetsCallsFinish(t *testing.T) {
	path := filepath.Join(socketDir(t), "csi.sock")
	listener, err := Listen(path)
	require.NoError(t, err)
	g, err := New(Config{})
	require.NoError(t, err)
	reached, finish := make(chan struct{}), make(chan struct{})
	csi.RegisterControllerServer(g, &service{answer: func(context.Context, *csi.DeleteVolumeRequest) error {
		close(reached)
		<-finish
		return nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended, called := make(chan error, 1), make(chan error, 1)
	go func() { ended <- Run(ctx, g, listener) }()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	go func() {
		_, err := csi.NewControllerClient(conn).DeleteVolume(context.Background(), &csi.DeleteVolumeRequest{VolumeId: "v"})
		called <- err
	}()
	<-reached
	cancel()
	close(finish)
	require.NoError(t, <-called)
	require.NoError(t, <-ended)
}

// TestNewTwiceOnOneRegistry: metrics that are registered already are an error, not a panic.
func TestNewTwiceOnOneRegistry(t *testing.T) {
	registry := prometheus.NewRegistry()
	_, err := New(Config{Metrics: registry})
	require.NoError(t, err)
	_, err = New(Config{Metrics: registry})
	require.ErrorContains(t, err, "metrics")
}

func TestStartAnswers(t *testing.T) {
	h := start(t, ok)
	_, err := h.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "v"})
	require.NoError(t, err)
	err = h.conn.Invoke(t.Context(), "/csi.v1.Controller/CreateSnapshot", &csi.CreateSnapshotRequest{}, &csi.CreateSnapshotResponse{})
	require.Equal(t, codes.Unimplemented, status.Code(err)) // CSI-GEN-Error-09, -11
	require.NotEmpty(t, status.Convert(err).Message())
}
