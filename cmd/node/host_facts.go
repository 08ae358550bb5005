package node

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/executor/hostcheck"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/executor/session"
)

// hostFacts answers controllers what this host shows of itself, and whom of those that they name it reaches.
func (n *node) hostFacts() func(context.Context, session.Reachability) ([]byte, error) {
	config := hostcheck.Config{
		Role: hostcheck.Node, Version: daemon.Version(), DataDir: n.dataDir, LockFile: "lock", Identity: records.Inspect,
		Cert: n.Files.Cert, Key: n.Files.Key, CA: n.Files.CA, Endpoints: n.endpoints, ReplicationAddress: n.replicationAddress,
		Wants: hostcheck.Wants{
			FilePool: n.poolDir != "", ThinPool: len(n.pools) > 0, Replication: n.replicationAddress != "", IOCgroup: n.ioCgroup != "",
		},
	}
	if n.poolDir != "" {
		config.Folders = []string{n.poolDir}
	}
	thin, _ := n.thinPools() // the flags were checked
	for _, t := range thin {
		config.ThinPools = append(config.ThinPools, [2]string{t.vg, t.pool})
	}
	shared := &hostcheck.Shared{Gatherer: hostcheck.New(config)}
	reach := newReachability(n.replicationAddress, shared.Dial, 50*time.Millisecond)
	return func(ctx context.Context, whom session.Reachability) ([]byte, error) {
		reached := reach.begin(ctx, whom) // at once: the other hosts are asked now, too
		facts, err := shared.Facts(ctx)
		if err != nil {
			return nil, err
		}
		(<-reached)(&facts)
		if n.client != nil {
			facts.Remembered = n.client.RememberedRevocations()
		}
		return facts.Encode()
	}
}
