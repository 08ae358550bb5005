package node

import (
	"context"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/executor/hostcheck"
	"github.com/holdfast-storage/holdfast/executor/records"
)

// hostFacts answers controllers what this host shows of itself.
func (n *node) hostFacts() func(context.Context) ([]byte, error) {
	config := hostcheck.Config{
		Role: hostcheck.Node, Version: daemon.Version(), DataDir: n.dataDir, LockFile: "lock", Identity: records.Inspect,
		Cert: n.Files.Cert, Key: n.Files.Key, CA: n.Files.CA, Endpoints: n.endpoints,
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
	return func(ctx context.Context) ([]byte, error) {
		facts, err := shared.Facts(ctx)
		if err != nil {
			return nil, err
		}
		if n.client != nil {
			facts.Remembered = n.client.RememberedRevocations()
		}
		return facts.Encode()
	}
}
