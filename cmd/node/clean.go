package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/luks"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Clean removes everything that a stopped node left on the host: mounts, targets and
// loop devices. Its images stay. For a node that never ran it does nothing.
func Clean(ctx context.Context, dataDir, poolDir string) error {
	if _, err := os.Stat(filepath.Join(dataDir, "host.json")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	runner := run.New()
	p := &components{}
	err := errors.Join(p.openIdentity(dataDir), p.openMounter([]string{"/"}, fsm.MountPolicy{}, runner), p.openFreezer(dataDir))
	if err == nil {
		err = p.openFolderPool(poolDir, runner, false)
	}
	if err == nil {
		var e *agent.Agent
		e, err = agent.New(agent.Config{Host: p.host, Pools: p.backends(), Mounter: p.mounter, Freezer: p.freezer, Encryptor: luks.New(runner, nil)})
		if err == nil {
			err = e.Clean(ctx)
		}
	}
	if err = errors.Join(err, p.close()); err != nil {
		return fmt.Errorf("take down what the node in %s left: %w", dataDir, err)
	}
	return nil
}
