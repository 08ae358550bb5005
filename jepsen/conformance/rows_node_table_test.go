package conformance

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

// The rows of the tables that say what a second NodePublishVolume (T2, P2) is
// answered. Table 1 is what COs hold a driver to that do not know
// SINGLE_NODE_MULTI_WRITER: they use the modes that it has rows for.
var nodeTableRows = map[string]rowTest{
	"CSI-NODE-NodePublishTable-05": second(sameTarget, sameArguments, codes.OK, modeWriter, modeReader),
	"CSI-NODE-NodePublishTable-06": second(sameTarget, otherArguments, codes.AlreadyExists, modeWriter, modeReader),
	"CSI-NODE-NodePublishTable-07": second(otherTarget, sameArguments, codes.FailedPrecondition, modeWriter, modeReader),
	"CSI-NODE-NodePublishTable-08": second(otherTarget, otherArguments, codes.FailedPrecondition, modeWriter, modeReader),
	"CSI-NODE-NodePublishTable-09": second(sameTarget, sameArguments, codes.OK, modeSingle),
	"CSI-NODE-NodePublishTable-10": second(sameTarget, otherArguments, codes.AlreadyExists, modeSingle),
	"CSI-NODE-NodePublishTable-11": second(otherTarget, sameArguments, codes.FailedPrecondition, modeSingle),
	"CSI-NODE-NodePublishTable-12": second(otherTarget, otherArguments, codes.FailedPrecondition, modeSingle),
	"CSI-NODE-NodePublishTable-13": second(sameTarget, sameArguments, codes.OK, modeMulti),
	"CSI-NODE-NodePublishTable-14": second(sameTarget, otherArguments, codes.AlreadyExists, modeMulti),
	"CSI-NODE-NodePublishTable-15": second(otherTarget, sameArguments, codes.OK, modeMulti),
	"CSI-NODE-NodePublishTable-16": second(otherTarget, otherArguments, codes.OK, modeMulti),
	"CSI-NODE-NodePublishTable-21": withMultiWriter(second(sameTarget, sameArguments, codes.OK, modeWriter, modeReader)),
	"CSI-NODE-NodePublishTable-22": withMultiWriter(second(sameTarget, otherArguments, codes.AlreadyExists, modeWriter, modeReader)),
	"CSI-NODE-NodePublishTable-23": withMultiWriter(second(otherTarget, sameArguments, codes.FailedPrecondition, modeWriter, modeReader)),
	"CSI-NODE-NodePublishTable-24": withMultiWriter(second(otherTarget, otherArguments, codes.FailedPrecondition, modeWriter, modeReader)),
}

const (
	sameTarget, otherTarget       = true, false
	sameArguments, otherArguments = true, false
)

// withMultiWriter is a row of table 2: the capability is advertised.
func withMultiWriter(row rowTest) rowTest {
	return rowOf(func(k *fixture) {
		require.Contains(k.t, k.nodeHas(k.env.Node(k.t)), csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
		row(k.t, k.env)
	})
}

// otherwise are the arguments of a second call that differ from those of the first.
var otherwise = map[string]func(r *publishReq){
	"readonly":    func(r *publishReq) { r.Readonly = !r.GetReadonly() },
	"fs_type":     func(r *publishReq) { r.GetVolumeCapability().GetMount().FsType = "" },
	"mount_flags": func(r *publishReq) { r.GetVolumeCapability().GetMount().MountFlags = []string{"noatime"} },
}

// second makes a row of a second call in each of the modes, for each argument that
// can differ.
func second(sameT, sameP bool, want codes.Code, modes ...csi.VolumeCapability_AccessMode_Mode) rowTest {
	return rowOf(func(k *fixture) {
		for _, mode := range modes {
			u := k.stagedAs(mode)
			if sameP {
				secondCall(u, sameT, func(*publishReq) {}, want)
				continue
			}
			for argument, change := range otherwise {
				k.t.Log(mode, argument)
				secondCall(u, sameT, change, want)
			}
		}
	})
}

// stagedAs stages a volume in a mode. One that is only to be read is written first:
// what is read-only cannot be given a filesystem.
func (k *fixture) stagedAs(mode csi.VolumeCapability_AccessMode_Mode) *stagingUse {
	k.t.Helper()
	if mode != modeReader {
		return k.newUse(nodeMountCapability(mode, "ext4")).stage()
	}
	u := k.newUse(nodeMountCapability(modeWriter, "ext4")).stage()
	u.unstage()
	require.NoError(k.t, u.unpublishVolume(k.ctx))
	u.cap = nodeMountCapability(modeReader, "ext4")
	u.publishVolume()
	return u.stage()
}

func secondCall(u *stagingUse, sameT bool, change func(*publishReq), want codes.Code) {
	u.t.Helper()
	first := u.bindTarget()
	r := u.bindRequest(first)
	r.VolumeCapability = nodeMountCapability(u.cap.GetAccessMode().GetMode(), "ext4")
	if !sameT {
		r.TargetPath = u.target()
	}
	change(r)
	for range 2 {
		if want != codes.OK {
			requireRefused(u.t, u.bindWith(r), want)
			continue
		}
		u.untilOK(func() error { return u.bindWith(r) })
		require.Equal(u.t, r.GetReadonly() || u.cap.GetAccessMode().GetMode() == modeReader, readOnlyMount(u.mountOf(r.GetTargetPath())))
	}
	require.Equal(u.t, 1, u.mounts(first))
	if !sameT && want != codes.OK {
		require.NoFileExists(u.t, r.GetTargetPath())
	}
	for _, target := range u.targets {
		u.requireUnbound(target)
	}
}
