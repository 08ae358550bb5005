package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/executor/hostcheck"
	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

func TestAHostShowsWhatItsFlagsAskOfIt(t *testing.T) {
	dir := t.TempDir()
	n := &node{options: &options{
		dataDir: dir, poolDir: dir, pools: []string{"lvm:no-such-group/thin"}, replicationAddress: "192.0.2.1", ioCgroup: "kubepods",
		Flags: daemon.Flags{Files: pki.Files{Cert: dir + "/none.crt"}},
	}}
	gather := n.hostFacts()
	for range 2 {
		text, err := gather(t.Context(), session.Reachability{})
		require.NoError(t, err)
		facts, err := hostcheck.Decode(text)
		require.NoError(t, err)
		require.Equal(t, hostcheck.Node, facts.Role)
		require.Equal(t, hostcheck.Wants{FilePool: true, ThinPool: true, Replication: true, IOCgroup: true}, facts.Wants)
		require.Equal(t, dir, facts.DataDir.Path)
		require.Len(t, facts.Spaces, 2)
		require.Equal(t, "no-such-group", facts.ThinPools[0].VG)
		require.Equal(t, "no such file or directory", facts.Certs[0].Err)
		require.Positive(t, facts.Disk.Writes)
	}
}
