package conformance

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"os"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// deletedBytes is how much is written and deleted again, and deletedShare what of it is back at least.
const (
	deletedBytes = 8 * harness.Mi
	deletedShare = deletedBytes * 95 / 100
)

type (
	nodeReclaimRequest = reclaimspace.NodeReclaimSpaceRequest
	usage              = reclaimspace.StorageConsumption
)

// reclaim is ControllerReclaimSpace of a volume at c1.
func (k *fixture) reclaim(ctx context.Context, id string) (*reclaimspace.ControllerReclaimSpaceResponse, error) {
	return reclaimspace.NewReclaimSpaceControllerClient(k.env.Conn(k.t, "c1")).ControllerReclaimSpace(ctx, &reclaimspace.ControllerReclaimSpaceRequest{VolumeId: id})
}

func (k *fixture) reclaimError(req *reclaimspace.ControllerReclaimSpaceRequest) error {
	_, err := reclaimspace.NewReclaimSpaceControllerClient(k.env.Conn(k.t, "c1")).ControllerReclaimSpace(k.ctx, req)
	return err
}

// reclaimed repeats it as a CO does until it is OK.
func (k *fixture) reclaimed(id string) *reclaimspace.ControllerReclaimSpaceResponse {
	k.t.Helper()
	var res *reclaimspace.ControllerReclaimSpaceResponse
	k.untilOK(func() (err error) {
		res, err = k.reclaim(k.ctx, id)
		return err
	})
	return res
}

// nodeReclaim is NodeReclaimSpace at n1.
func (k *fixture) nodeReclaim(ctx context.Context, req *nodeReclaimRequest) (*reclaimspace.NodeReclaimSpaceResponse, error) {
	return reclaimspace.NewReclaimSpaceNodeClient(k.env.Conn(k.t, "n1")).NodeReclaimSpace(ctx, req)
}

func (k *fixture) nodeReclaimed(req *nodeReclaimRequest) *reclaimspace.NodeReclaimSpaceResponse {
	k.t.Helper()
	var res *reclaimspace.NodeReclaimSpaceResponse
	k.untilOK(func() (err error) {
		res, err = k.nodeReclaim(k.ctx, req)
		return err
	})
	return res
}

// occupied is how many bytes the file of a volume on n1 has on its disk.
func (k *fixture) occupied(id string) int64 {
	k.t.Helper()
	var s syscall.Stat_t
	require.NoError(k.t, syscall.Stat(k.imageOf(id), &s))
	return s.Blocks * 512
}

// writeAndDelete writes a file to the disk and deletes it; what is beside it stays.
func (k *fixture) writeAndDelete(dir string) {
	k.t.Helper()
	k.write(dir, "beside")
	junk := make([]byte, deletedBytes)
	_, _ = rand.Read(junk)
	f, err := os.Create(filepath.Join(dir, "junk"))
	require.NoError(k.t, err)
	_, err = f.Write(junk)
	require.NoError(k.t, err)
	require.NoError(k.t, f.Sync())
	require.NoError(k.t, f.Close())
	require.NoError(k.t, os.Remove(f.Name()))
}

// unusedVolume is a volume on n1 that nobody uses, whose filesystem has what was deleted and a file beside it.
func (k *fixture) unusedVolume() *csi.Volume {
	k.t.Helper()
	v := k.createVolume()
	u := k.newMountedUse(v, mountCapability(writer, "ext4"), false)
	k.writeAndDelete(u.targets[0])
	require.NoError(k.t, u.cleanUp(k.ctx))
	require.GreaterOrEqual(k.t, k.occupied(v.GetVolumeId()), int64(deletedBytes))
	return v
}

// requireBeside mounts the volume and reads what was beside the deleted file.
func (k *fixture) requireBeside(v *csi.Volume) {
	k.t.Helper()
	u := k.newMountedUse(v, mountCapability(writer, "ext4"), false)
	require.Equal(k.t, "beside", k.read(u.targets[0]))
	require.NoError(k.t, u.cleanUp(k.ctx))
}

// requireFreed: the usage before and after is what the pool says, and what was deleted is back.
func (k *fixture) requireFreed(id string, before int64, pre, post *usage) {
	k.t.Helper()
	require.NotNil(k.t, pre)
	require.NotNil(k.t, post)
	require.GreaterOrEqual(k.t, post.GetUsageBytes(), int64(0))
	require.Equal(k.t, k.occupied(id), post.GetUsageBytes())
	require.GreaterOrEqual(k.t, pre.GetUsageBytes()-post.GetUsageBytes(), int64(deletedShare))
	require.GreaterOrEqual(k.t, before-k.occupied(id), int64(deletedShare))
}

// stagedVolume is a volume with a filesystem that is staged and bound on n1.
func (k *fixture) stagedVolume() (u *stagingUse, target string) {
	k.t.Helper()
	u = k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
	return u, u.bindTarget()
}

// reclaimRequest is the request of its reclaim at a target.
func (u *stagingUse) reclaimRequest(path string) *nodeReclaimRequest {
	return &nodeReclaimRequest{VolumeId: u.id, VolumePath: path, StagingTargetPath: u.staging, VolumeCapability: u.cap}
}

// rawUse is a raw volume on n1 that is full of random bytes, and their sum.
func (k *fixture) rawUse() (u *stagingUse, target string, sum [sha256.Size]byte) {
	k.t.Helper()
	u = k.newUse(nodeBlockCapability(modeWriter)).stage()
	target = u.bindTarget()
	content := make([]byte, u.size)
	_, _ = rand.Read(content)
	f, err := os.OpenFile(target, os.O_WRONLY|syscall.O_SYNC, 0)
	require.NoError(k.t, err)
	_, err = f.Write(content)
	require.NoError(k.t, err)
	require.NoError(k.t, f.Close())
	return u, target, sha256.Sum256(content)
}

// sumOf is the sum of a volume's file on n1.
func (k *fixture) sumOf(id string) [sha256.Size]byte {
	k.t.Helper()
	raw, err := os.ReadFile(k.imageOf(id))
	require.NoError(k.t, err)
	return sha256.Sum256(raw)
}

// withWrongToken makes a row of a call that needs the token of the configured cluster.
func withWrongToken(process string, call func(k *fixture, conn *grpc.ClientConn, secrets map[string]string) error) rowTest {
	return rowOf(func(k *fixture) {
		conn := k.configuredConn(process)
		for _, secrets := range []map[string]string{nil, {"holdfastToken": "wrong"}, {"token": addonsToken}} {
			requireRefused(k.t, call(k, conn, secrets), codes.Unauthenticated)
		}
		requireRefused(k.t, call(k, conn, withToken()), codes.NotFound) // it is let in
	})
}

// requireUnknown requires that a call fails with UNKNOWN, twice, for an error that nobody expected.
func (k *fixture) requireUnknown(call func(ctx context.Context) error) {
	k.t.Helper()
	for range 2 {
		requireRefused(k.t, retried(k.ctx, call), codes.Unknown)
	}
}

// whileDamaged runs a function while the filesystem of an unused volume on n1 cannot be mounted.
func (k *fixture) whileDamaged(id string, during func()) {
	k.t.Helper()
	const from, length = 2048, 6144 // its group descriptors, behind the superblock
	image, err := os.OpenFile(k.imageOf(id), os.O_RDWR|syscall.O_SYNC, 0)
	require.NoError(k.t, err)
	defer image.Close()
	whole := make([]byte, length)
	_, err = image.ReadAt(whole, from)
	require.NoError(k.t, err)
	defer func() {
		_, err := image.WriteAt(whole, from)
		require.NoError(k.t, err)
	}()
	_, err = image.WriteAt(make([]byte, length), from)
	require.NoError(k.t, err)
	during()
}

// shutDown has a mounted filesystem fail every access from now on.
func shutDown(path string) error {
	root, err := os.Open(path)
	if err != nil {
		return err
	}
	defer root.Close()
	return unix.IoctlSetPointerInt(int(root.Fd()), fsGoingDown, 0)
}

// fiFreeze, fiThaw and fsGoingDown are ioctls of filesystems: FIFREEZE, FITHAW and FS_IOC_SHUTDOWN.
const (
	fiFreeze    = 0xc0045877
	fiThaw      = 0xc0045878
	fsGoingDown = 0x8004587d
)
