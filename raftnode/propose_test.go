package raftnode

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S25: what was measured is attached to a command when its leader encodes it.
func TestTheLeaderAttachesFacts(t *testing.T) {
	var fault atomic.Pointer[string]
	facts := []*fsmpb.PoolFact{{PoolId: "pool-n1", FreeBytes: 7, Index: 3}}
	attach := func(cmd *fsmpb.Command) { cmd.GetCreateVolume().Facts = facts }
	for _, cfg := range []Config{{now: time.Now, Facts: attach}, {now: time.Now}} {
		p := &proposer{
			core: &core{cfg: cfg, machine: newTestMachine(t, &fault)}, diskGuard: &diskGuard{}, hashDispute: &hashDispute{}, clock: &clockCheck{},
		}
		data, err := p.encodeProposal(&fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{}}})
		require.NoError(t, err)
		encoded := new(fsmpb.Command)
		require.NoError(t, proto.Unmarshal(data, encoded))
		require.Equal(t, cfg.Facts != nil, proto.Equal(&fsmpb.CreateVolume{Facts: facts}, encoded.GetCreateVolume()))
	}
}
