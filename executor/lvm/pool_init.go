package lvm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Init makes a thin pool a pool of Holdfast's and returns its id. An existing thin pool is
// adopted, with any logical volumes of others in it, and keeps an id that it has; a missing one is
// created from 90 % of its volume group's free space. The volume group must exist. Call it only
// for a pool that this host has never known (S12).
func Init(ctx context.Context, cfg Config) (fsm.PoolID, error) {
	cfg.KnownID = ""
	p, err := newPool(ctx, cfg)
	if err != nil {
		return "", err
	}
	state, err := p.states.refresh(ctx)
	if errors.Is(err, errNoGroup) {
		return "", fmt.Errorf("make %s a pool: there is no volume group %s: make it with `vgcreate`; those on loop, NBD and DRBD devices are ignored", p.name(), p.VG)
	}
	if err != nil {
		return "", fmt.Errorf("make %s a pool: %w", p.name(), err)
	}
	c := &poolCreator{p.thinPool}
	if state.pool.name == "" {
		return c.makePool(ctx)
	}
	return c.adopt(ctx, state)
}

// poolCreator makes a thin pool one of Holdfast's.
type poolCreator struct{ *thinPool }

// adopt tags the thin pool with an id. A pool that does not zero new blocks is refused (S12).
func (c *poolCreator) adopt(ctx context.Context, state *poolState) (fsm.PoolID, error) {
	if !state.zeroesBlocks {
		return "", fmt.Errorf("make %s a pool: it does not zero new blocks, so that a volume would show old data: run `lvchange --zero y %s`", c.name(), c.name())
	}
	if state.pool.tagValue(tagPool) != "" {
		id, err := state.poolID()
		if err != nil {
			return "", fmt.Errorf("make %s a pool: %w", c.name(), err)
		}
		return id, nil
	}
	id := newID()
	if err := c.tools.runChange(ctx, changeTimeout, "lvchange", "--addtag", tagPool+string(id), c.name()); err != nil {
		return "", fmt.Errorf("make %s a pool: %w", c.name(), err)
	}
	return id, nil
}

func newID() fsm.PoolID { return fsm.PoolID("hp-" + uuid.NewString()) }

// makePool creates the thin pool with its id, in one command.
func (c *poolCreator) makePool(ctx context.Context) (fsm.PoolID, error) {
	free, extent, err := c.tools.groupFree(ctx, c.VG)
	if err != nil {
		return "", fmt.Errorf("make thin pool %s: %w", c.name(), err)
	}
	g := planGeometry(free, extent)
	if g.data <= 0 {
		return "", fmt.Errorf("make thin pool %s: the volume group has %d bytes free, which is too little", c.name(), free)
	}
	id := newID()
	err = c.tools.runChange(ctx, changeTimeout, "lvcreate", "-T", c.name(), "-L", fmt.Sprintf("%db", g.data),
		"--poolmetadatasize", fmt.Sprintf("%db", g.metadata), "--chunksize", fmt.Sprintf("%db", g.chunk),
		"--zero", "y", "--errorwhenfull", "y", "--addtag", tagPool+string(id))
	if err != nil {
		return "", fmt.Errorf("make thin pool %s: %w", c.name(), err)
	}
	return id, nil
}

// groupFree returns a volume group's free space and the size of its extents, in bytes.
func (t *tools) groupFree(ctx context.Context, vg string) (free, extent int64, err error) {
	var out bytes.Buffer
	err = t.query(ctx, &out, "vgs", "--reportformat", "json", "--units", "b", "--nosuffix", "-o", "vg_free,vg_extent_size", vg)
	if err != nil {
		return 0, 0, err
	}
	return parseGroup(out.Bytes())
}

func parseGroup(report []byte) (free, extent int64, err error) {
	var all struct {
		Report []struct {
			VG []struct {
				Free   string `json:"vg_free"`
				Extent string `json:"vg_extent_size"`
			} `json:"vg"`
		} `json:"report"`
	}
	if err := json.Unmarshal(report, &all); err != nil {
		return 0, 0, fmt.Errorf("parse the report of vgs: %w", err)
	}
	if len(all.Report) != 1 || len(all.Report[0].VG) != 1 {
		return 0, 0, errors.New("vgs does not report exactly one volume group")
	}
	n := numberParser{}
	free, extent = n.parse(all.Report[0].VG[0].Free), n.parse(all.Report[0].VG[0].Extent)
	if n.err != nil || extent == 0 {
		return 0, 0, fmt.Errorf("parse the report of vgs: %s free, extents of %s", all.Report[0].VG[0].Free, all.Report[0].VG[0].Extent)
	}
	return free, extent, nil
}

// geometry is how a new thin pool is created, in bytes.
type geometry struct{ data, metadata, chunk int64 }

const (
	poolSharePercent = 90       // of the free space, for data and metadata
	minChunk         = 64 << 10 // after a snapshot, the first write to a chunk copies all of it
	minMetadata      = 8 << 20
	maxMetadata      = 15 << 30  // the kernel uses 15.8 GiB at most
	dataPerMetadata  = 400       // 2.5 times what LVM calculates for volumes without snapshots
	maxChunks        = 240 << 20 // chunks that the largest metadata can map
)

// planGeometry divides the free space. LVM keeps a spare as large as the metadata.
func planGeometry(free, extent int64) geometry {
	all := free / 100 * poolSharePercent
	g := geometry{chunk: minChunk, metadata: min(max(all/dataPerMetadata, minMetadata), maxMetadata)}
	g.metadata = (g.metadata + extent - 1) / extent * extent
	g.data = (all - 2*g.metadata) / extent * extent
	for g.data/g.chunk > maxChunks {
		g.chunk *= 2
	}
	return g
}
