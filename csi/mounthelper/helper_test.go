package mounthelper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	one   = "hf-00000000-0000-4000-8000-000000000001"
	other = "hf-00000000-0000-4000-8000-000000000002"
)

// host is what controllers, the node and the table of one host are as the helper sees them. Each call that changes
// something is numbered; that one of a number has its effect or not, and then fails.
type host struct {
	csi.NodeClient
	dir                               string
	published, staged, bound, inTable string // volumes, of a path the target
	holder                            string // the other node that has the volume
	secrets                           map[string]string
	orchestrated                      bool   // the publication is an orchestrator's
	meanwhile                         func() // it is called once, behind the first look
	calls, failAt                     int
	effect                            bool
	code                              codes.Code
}

// do has an effect, unless the call of this number is to fail before it.
func (h *host) do(effect func()) error {
	h.calls++
	if h.calls == h.failAt {
		if h.effect {
			effect()
		}
		return status.Error(h.code, "as planned")
	}
	effect()
	return nil
}

func (h *host) Find(_ context.Context, named, node string) (*Volume, error) {
	if named == "unknown" {
		return nil, status.Error(codes.NotFound, "no such volume")
	}
	id := fsm.VolumeID(one)
	if named == "other" {
		id = other
	}
	if named == one || named == other {
		id = fsm.VolumeID(named)
	}
	published, orchestrated := h.published == string(id), h.orchestrated
	if then := h.meanwhile; then != nil {
		h.meanwhile = nil
		then()
	}
	return &Volume{ID: id, Name: map[bool]string{true: "other", false: "data"}[id == other], Published: published, Orchestrated: orchestrated, Capability: &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}}}}, nil
}

func (h *host) Publish(_ context.Context, id fsm.VolumeID, _ string, _ bool) (map[string]string, error) {
	if h.orchestrated {
		return nil, status.Error(codes.FailedPrecondition, "an orchestrator published it")
	}
	if h.holder != "" {
		return nil, status.Error(codes.FailedPrecondition, "it is published to node "+h.holder)
	}
	return map[string]string{"epoch": "1"}, h.do(func() { h.published = string(id) })
}

func (h *host) Unpublish(context.Context, fsm.VolumeID, string) error {
	return h.do(func() {
		if !h.orchestrated {
			h.published = ""
		}
	})
}

func (h *host) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest, ...grpc.CallOption) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "n1"}, nil
}

func (h *host) NodeStageVolume(_ context.Context, req *csi.NodeStageVolumeRequest, _ ...grpc.CallOption) (*csi.NodeStageVolumeResponse, error) {
	if req.GetPublishContext()["epoch"] != "1" || h.published != req.GetVolumeId() {
		return nil, status.Error(codes.FailedPrecondition, "it is not published here")
	}
	h.secrets = req.GetSecrets()
	return nil, h.do(func() { h.staged = req.GetVolumeId() })
}

func (h *host) NodeUnstageVolume(context.Context, *csi.NodeUnstageVolumeRequest, ...grpc.CallOption) (*csi.NodeUnstageVolumeResponse, error) {
	return nil, h.do(func() { h.staged = "" })
}

func (h *host) NodePublishVolume(_ context.Context, req *csi.NodePublishVolumeRequest, _ ...grpc.CallOption) (*csi.NodePublishVolumeResponse, error) {
	if h.staged != req.GetVolumeId() {
		return nil, status.Error(codes.FailedPrecondition, "it is not staged")
	}
	return nil, h.do(func() { h.bound = req.GetTargetPath() })
}

// NodeUnpublishVolume removes the target, as CSI has it.
func (h *host) NodeUnpublishVolume(_ context.Context, req *csi.NodeUnpublishVolumeRequest, _ ...grpc.CallOption) (*csi.NodeUnpublishVolumeResponse, error) {
	return nil, h.do(func() {
		h.bound = ""
		_ = os.Remove(req.GetTargetPath())
	})
}

func (h *host) IsMounted(path string) (bool, error) { return h.bound == path, nil }
func (h *host) Register(_ context.Context, path, _ string, _ []string) error {
	return h.do(func() { h.inTable = path })
}
func (h *host) Unregister(context.Context, string) { h.inTable = "" }

func newHost(t *testing.T) (*host, *Helper, Request) {
	h := &host{dir: t.TempDir(), code: codes.FailedPrecondition}
	target := filepath.Join(h.dir, "target")
	require.NoError(t, os.Mkdir(target, 0o751))
	return h, &Helper{Controllers: h, Node: h, Table: h, Dir: filepath.Join(h.dir, "mounts"), Patience: time.Minute, Pause: time.Microsecond},
		Request{Volume: "data", Target: target, Secrets: map[string]string{"encryptionPassphrase": "canary"}}
}

func (h *host) requireMounted(t *testing.T, target string) {
	t.Helper()
	require.Equal(t, []string{one, one, target, target}, []string{h.published, h.staged, h.bound, h.inTable})
}

// requireGone: nothing of it is left, and the mount point is as it was.
func (h *host) requireGone(t *testing.T, m *Helper, target string) {
	t.Helper()
	require.Equal(t, make([]string, 4), []string{h.published, h.staged, h.bound, h.inTable})
	all, err := m.List()
	require.NoError(t, err)
	require.Empty(t, all)
	info, err := os.Stat(target)
	require.NoError(t, err)
	require.EqualValues(t, 0o751, info.Mode().Perm())
}

func TestMountAndUnmountTwice(t *testing.T) {
	h, m, req := newHost(t)
	for range 2 {
		for range 2 {
			require.NoError(t, m.Mount(t.Context(), req))
			h.requireMounted(t, req.Target)
		}
		require.NoError(t, m.Unmount(t.Context(), req.Target))
		h.requireGone(t, m, req.Target)
		require.Equal(t, codes.NotFound, status.Code(m.Unmount(t.Context(), req.Target)))
	}
	require.Equal(t, "canary", h.secrets["encryptionPassphrase"])
	require.NoError(t, filepath.Walk(h.dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			text, _ := os.ReadFile(path)
			require.NotContains(t, string(text), "canary", path)
		}
		return err
	}))
}

// After an end at any call, before it had its effect or after it, the same command goes on; and the opposite undoes it.
func TestAnInterruptedHelperGoesOn(t *testing.T) {
	for _, verb := range []string{"mount", "unmount"} {
		for _, then := range []string{"mount", "unmount"} {
			for call := 1; call <= 4; call++ {
				for _, effect := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, then %s, call %d, %v", verb, then, call, effect), func(t *testing.T) {
						h, m, req := newHost(t)
						if verb == "unmount" {
							require.NoError(t, m.Mount(t.Context(), req))
						}
						m.Patience, h.code = 0, codes.Unavailable
						h.failAt, h.effect = h.calls+call, effect
						do := map[string]func() error{"mount": func() error { return m.Mount(t.Context(), req) }, "unmount": func() error { return m.Unmount(t.Context(), req.Target) }}
						first := do[verb]()
						if h.calls >= h.failAt {
							require.Error(t, first)
						}
						h.failAt = 0
						for range 2 {
							err := do[then]()
							if status.Code(err) == codes.NotFound { // it was done
								require.Equal(t, "unmount", then)
								continue
							}
							require.NoError(t, err)
						}
						if then == "mount" {
							h.requireMounted(t, req.Target)
						} else {
							h.requireGone(t, m, req.Target)
						}
					})
				}
			}
		}
	}
}

// A definite refusal leaves nothing behind; a call that finds nobody is repeated.
func TestARefusalIsUndone(t *testing.T) {
	for call := 1; call <= 3; call++ {
		h, m, req := newHost(t)
		h.failAt = call
		require.Equal(t, codes.FailedPrecondition, status.Code(m.Mount(t.Context(), req)))
		h.requireGone(t, m, req.Target)
		h, m, req = newHost(t)
		h.failAt, h.code = call, codes.Unavailable
		require.NoError(t, m.Mount(t.Context(), req))
		h.requireMounted(t, req.Target)
	}
	h, m, req := newHost(t)
	h.holder = "n2"
	require.ErrorContains(t, m.Mount(t.Context(), req), "published to node n2")
	h.requireGone(t, m, req.Target)
}

func TestWhatIsRefused(t *testing.T) {
	h, m, req := newHost(t)
	require.NoError(t, m.Mount(t.Context(), req))
	elsewhere := filepath.Join(h.dir, "elsewhere")
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	for _, tc := range []struct {
		volume, target, why string
	}{
		{"data", elsewhere, "mounted on"}, {"other", req.Target, "volume data is mounted on"}, {"unknown", elsewhere, "no such volume"},
		{"other", filepath.Join(h.dir, "none"), "make the folder first"},
	} {
		for range 2 {
			require.ErrorContains(t, m.Mount(t.Context(), Request{Volume: tc.volume, Target: tc.target}), tc.why)
			h.requireMounted(t, req.Target)
		}
	}
	unlock, err := m.records().lock(one)
	require.NoError(t, err)
	m.Patience = 0
	require.Equal(t, codes.Aborted, status.Code(m.Unmount(t.Context(), req.Target)), "another process is at it")
	unlock()
	require.NoError(t, m.Unmount(t.Context(), req.Target))
}

// Without controllers it is unmounted, and given back later; what is not mounted any more can be mounted elsewhere.
func TestWhatIsNotMountedIsReleased(t *testing.T) {
	h, m, req := newHost(t)
	require.NoError(t, m.Mount(t.Context(), req))
	m.Patience, h.code = 0, codes.Unavailable
	h.failAt = h.calls + 3
	var notGivenBack *NotGivenBackError
	require.ErrorAs(t, m.Unmount(t.Context(), req.Target), &notGivenBack)
	require.Equal(t, []string{one, "", ""}, []string{h.published, h.staged, h.bound})
	for n := range 2 {
		released, err := m.Release(t.Context())
		require.NoError(t, err)
		require.Len(t, released, 1-n)
	}
	h.requireGone(t, m, req.Target)

	require.NoError(t, m.Mount(t.Context(), req))
	released, err := m.Release(t.Context())
	require.NoError(t, err)
	require.Empty(t, released, "it is mounted")
	h.bound, h.inTable = "", "" // as by umount -i
	elsewhere := filepath.Join(h.dir, "elsewhere")
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	require.NoError(t, m.Mount(t.Context(), Request{Volume: "data", Target: elsewhere}))
	h.requireMounted(t, elsewhere)
}

// The mount point's folder may be another user's: no link there is followed, and none keeps the volume from being given
// back. A folder that is gone is no error.
func TestAMountPointIsMadeAgainWithoutFollowingLinks(t *testing.T) {
	for name, link := range map[string]bool{"a link": true, "gone": false} {
		t.Run(name, func(t *testing.T) {
			h, m, req := newHost(t)
			folder, victim := filepath.Join(h.dir, "folder"), filepath.Join(h.dir, "victim")
			req.Target = filepath.Join(folder, "target")
			require.NoError(t, os.MkdirAll(req.Target, 0o751))
			require.NoError(t, os.Mkdir(victim, 0o700))
			require.NoError(t, m.Mount(t.Context(), req))
			require.NoError(t, os.RemoveAll(folder))
			if link {
				require.NoError(t, os.Symlink(victim, folder))
				require.ErrorContains(t, m.Unmount(t.Context(), req.Target), "make the mount point")
			} else {
				require.NoError(t, m.Unmount(t.Context(), req.Target))
			}
			require.NoDirExists(t, filepath.Join(victim, "target"))
			require.Equal(t, make([]string, 4), []string{h.published, h.staged, h.bound, h.inTable})
			require.Equal(t, codes.NotFound, status.Code(m.Unmount(t.Context(), req.Target)), "it is given back")
		})
	}
}

// A publication of an orchestrator is neither used nor ended, whenever it came.
func TestAnOrchestratorsPublicationIsLeft(t *testing.T) {
	h, m, req := newHost(t)
	orchestrate := func() { h.published, h.orchestrated = one, true }
	for name, before := range map[string]func(){"it was there": orchestrate, "it came before the lock": func() { h.meanwhile = orchestrate },
		"it came behind the lock": func() { h.meanwhile = func() { h.meanwhile = orchestrate } }} {
		t.Run(name, func(t *testing.T) {
			h.published, h.orchestrated, h.meanwhile = "", false, nil
			before()
			for range 2 {
				require.ErrorContains(t, m.Mount(t.Context(), req), "an orchestrator published")
				require.Equal(t, []string{one, "", ""}, []string{h.published, h.staged, h.bound})
			}
		})
	}
}
