package addons

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/kubeapi"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

const ballast = 16 << 20 // bytes that are written, deleted, and must be back in the pool

// stagingPath is where a kubelet stages a volume, and where the sidecar takes it to be.
func (k *kubernetes) stagingPath(v *harness.Volume) string {
	if v.Block {
		return filepath.Join(k.staging, "volumeDevices", "staging", v.Name)
	}
	return filepath.Join(k.staging, driver, fmt.Sprintf("%x", sha256.Sum256([]byte(v.ID))), "globalmount")
}

// attach publishes and stages a volume at a path, and says so as the attacher does.
func (k *kubernetes) attach(t *testing.T, v *harness.Volume, node, path string) {
	t.Helper()
	require.NoError(t, k.co.Publish(t.Context(), v, node))
	require.NoError(t, os.MkdirAll(path, 0o750))
	request := k.co.StageRequest(v)
	request.StagingTargetPath = path
	client, err := k.View().Node(node)
	require.NoError(t, err)
	_, err = client.NodeStageVolume(t.Context(), request)
	require.NoError(t, err)
	ref := kubeapi.Ref{Resource: "volumeattachments", Name: v.Name}
	k.create(t, ref, object{"spec": fields{"attacher": driver, "nodeName": node, "source": fields{"persistentVolumeName": v.Name}}})
	k.status(t, ref, fields{"attached": true})
}

// detach undoes attach.
func (k *kubernetes) detach(t *testing.T, v *harness.Volume, path string) {
	t.Helper()
	require.NoError(t, k.unstage(t, v, path))
	require.NoError(t, k.co.Unpublish(t.Context(), v))
	require.NoError(t, k.api.Delete(kubeapi.Ref{Resource: "volumeattachments", Name: v.Name}))
}

// job runs a ReclaimSpaceJob to its end.
func (k *kubernetes) job(t *testing.T, name string, v *harness.Volume) object {
	t.Helper()
	ref := kubeapi.Ref{Resource: "reclaimspacejobs", Namespace: "shop", Name: name}
	k.create(t, ref, object{"spec": fields{"target": fields{"persistentVolumeClaim": v.Name}, "backOffLimit": 6, "retryDeadlineSeconds": 600}})
	return k.await(t, ref, "the job "+name+" to end", func(o object) bool { return o.Text("status", "result") != "" })
}

// litter writes a file into a directory and deletes it: the pool does not know.
func litter(t *testing.T, dir string) {
	t.Helper()
	noise := make([]byte, ballast)
	_, err := rand.Read(noise)
	require.NoError(t, err)
	path := filepath.Join(dir, "ballast")
	require.NoError(t, os.WriteFile(path, noise, 0o600))
	syncDir(t, dir)
	require.NoError(t, os.Remove(path))
	syncDir(t, dir)
}

func syncDir(t *testing.T, dir string) {
	f, err := os.Open(dir)
	require.NoError(t, err)
	require.NoError(t, unix.Syncfs(int(f.Fd())))
	require.NoError(t, f.Close())
}

// allocated is what a volume takes of its pool, in bytes.
func (k *kubernetes) allocated(t *testing.T, node string, v *harness.Volume) int64 {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(k.Member(node).PoolDir(), "volumes", v.ID+"*"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	info, err := os.Stat(found[0])
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// testReclaimFilesystem: ADD-RS-NodeReclaimSpace-02, -04 and ADD-RS-ControllerReclaimSpace-02, -04: of a volume that is attached,
// the node's sidecar is asked and then the controller's, of another the controller's alone.
func (k *kubernetes) testReclaimFilesystem(t *testing.T) {
	v := k.volume(t, harness.Spec{Name: "files", Size: 64 * harness.Mi, Node: "n1"})
	path := k.stagingPath(v)
	k.attach(t, v, "n1", path)
	kept := filepath.Join(path, "kept")
	require.NoError(t, os.WriteFile(kept, []byte("beside it"), 0o600))
	litter(t, path)
	k.requireReclaims(t, v, "attached")
	litter(t, path)
	k.detach(t, v, path)
	k.requireReclaims(t, v, "detached")
	k.attach(t, v, "n1", path)
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, "beside it", string(text))
	k.detach(t, v, path)
	require.NoError(t, k.co.Delete(t.Context(), v))
}

// requireReclaims: the job succeeds, and the pool has back what was deleted. What the job says that was reclaimed is no measure: it
// subtracts the usage before from that after.
func (k *kubernetes) requireReclaims(t *testing.T, v *harness.Volume, job string) {
	t.Helper()
	before := k.allocated(t, "n1", v)
	require.Greater(t, before, int64(ballast))
	done := k.job(t, job, v)
	require.Equal(t, "Succeeded", done.Text("status", "result"), done)
	after := k.allocated(t, "n1", v)
	require.GreaterOrEqual(t, before-after, int64(ballast*95/100), "%d bytes before, %d after", before, after)
	again := k.job(t, job+"-again", v)
	require.Equal(t, "Succeeded", again.Text("status", "result"), again)
}

// testReclaimRaw: ADD-RS-NodeReclaimSpace-11 and ADD-RS-ControllerReclaimSpace-03: what it has may be a workload's.
func (k *kubernetes) testReclaimRaw(t *testing.T) {
	v := k.volume(t, harness.Spec{Name: "raw", Block: true, Node: "n1"})
	path := k.stagingPath(v)
	k.attach(t, v, "n1", path)
	before := k.allocated(t, "n1", v)
	for _, job := range []string{"raw-attached", "raw-detached"} {
		done := k.job(t, job, v)
		require.Equal(t, "Succeeded", done.Text("status", "result"), done)
		require.Equal(t, before, k.allocated(t, "n1", v))
		if v.Node != "" {
			k.detach(t, v, path)
		}
	}
	require.NoError(t, k.co.Delete(t.Context(), v))
}

// testToolReclaim: the tool has the sidecar's own code for both, and joins the staging path twice.
func (k *kubernetes) testToolReclaim(t *testing.T) {
	v := k.volume(t, harness.Spec{Name: "by-tool", Size: 64 * harness.Mi, Node: "n1"})
	root := filepath.Join(k.staging, "tool")
	path := filepath.Join(root, driver, fmt.Sprintf("%x", sha256.Sum256([]byte(v.Name))), "globalmount",
		driver, fmt.Sprintf("%x", sha256.Sum256([]byte(v.ID))), "globalmount")
	k.attach(t, v, "n1", path)
	at := []string{"-persistentvolume=" + v.Name, "-drivername=" + driver, "-stagingpath=" + root}
	for _, again := range []bool{false, true} {
		if !again {
			litter(t, path)
		}
		before := k.allocated(t, "n1", v)
		k.requireTool(t, "n1", "NodeReclaimSpace", 0, "space reclaimed", at...)
		require.Equal(t, !again, before-k.allocated(t, "n1", v) >= ballast*95/100)
	}
	elsewhere := append(at[:2:2], "-stagingpath="+t.TempDir())
	k.requireTool(t, "n1", "NodeReclaimSpace", 1, "code = NotFound", elsewhere...)
	k.requireTool(t, "n1", "NodeReclaimSpace", 1, "drivername is not set", at[0])
	k.requireTool(t, "n1", "ControllerReclaimSpace", 1, "code = Unimplemented", at[0])
	k.requireTool(t, "c1", "NodeReclaimSpace", 1, "code = Unimplemented", at...)
	k.requireTool(t, "c1", "ControllerReclaimSpace", 1, "failed to get pv", "-persistentvolume=none")
	litter(t, path)
	k.detach(t, v, path)
	before := k.allocated(t, "n1", v)
	k.requireTool(t, "c2", "ControllerReclaimSpace", 0, "pre_usage", at[0])
	require.GreaterOrEqual(t, before-k.allocated(t, "n1", v), int64(ballast*95/100))
	require.NoError(t, k.co.Delete(t.Context(), v))
	k.requireTool(t, "c1", "ControllerReclaimSpace", 1, "code = NotFound", at[0])
}

// requireTool runs an operation that must end so and say so.
func (k *kubernetes) requireTool(t *testing.T, member, operation string, code int, says string, args ...string) {
	t.Helper()
	var got result
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, operation+" to have a definite answer", func() (bool, error) {
		got = k.tool(t, member, operation, args...)
		return !strings.Contains(got.text, "code = Aborted") && !strings.Contains(got.text, "code = Unavailable"), fmt.Errorf("%s", got.text)
	}))
	require.Equal(t, code, got.code, got.text)
	require.Contains(t, got.text, says)
	require.NotContains(t, got.text, token)
}

// unstage ends what attach staged.
func (k *kubernetes) unstage(t *testing.T, v *harness.Volume, path string) error {
	client, err := k.View().Node(v.Node)
	require.NoError(t, err)
	return harness.Poll(t.Context(), harness.Patience, "volume "+v.Name+" to be unstaged", func() (bool, error) {
		_, err := client.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: v.ID, StagingTargetPath: path})
		return err == nil, err
	})
}
