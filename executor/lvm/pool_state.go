package lvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// poolState is what LVM reports of a pool and of all that is in it, from one command.
type poolState struct {
	groupUUID     string // the volume group's UUID
	extentBytes   int64  // bytes
	pool          logicalVolume
	chunkBytes    int64 // bytes
	zeroesBlocks  bool  // new blocks are zeroed
	errorWhenFull bool  // a full pool fails writes at once, instead of queueing them
	transaction   uint64
	volumes       map[string]logicalVolume // by name, also those of others
}

// logicalVolume is one logical volume.
type logicalVolume struct {
	name, uuid string
	size       int64 // bytes, in whole extents
	tags       []string
	thinID     uint64 // the thin device's id in the pool
}

func (v *logicalVolume) hasTag(tag string) bool { return slices.Contains(v.tags, tag) }

// tagValue is what follows a tag's prefix; empty without such a tag.
func (v *logicalVolume) tagValue(prefix string) string {
	for _, tag := range v.tags {
		if rest, ok := strings.CutPrefix(tag, prefix); ok {
			return rest
		}
	}
	return ""
}

// taggedSize is the size in bytes that the volume was created with, never more than the logical
// volume has.
func (v *logicalVolume) taggedSize() (int64, error) {
	size, err := strconv.ParseInt(v.tagValue(tagSize), 10, 64)
	if err != nil || size <= 0 || size > v.size {
		return 0, fsm.Reject(fsm.Precondition, "the tags %s of %s do not say its size of at most %d bytes", strings.Join(v.tags, ","), v.name, v.size)
	}
	return size, nil
}

// poolID is the id that the pool is tagged with.
func (v *poolState) poolID() (fsm.PoolID, error) {
	switch id := v.pool.tagValue(tagPool); {
	case v.pool.name == "":
		return "", errors.New("there is no such thin pool")
	case id == "":
		return "", fmt.Errorf("it has no tag %s", tagPool)
	case !poolPattern.MatchString(id):
		return "", fmt.Errorf("its tag %s%s is no pool's id", tagPool, id)
	default:
		return fsm.PoolID(id), nil
	}
}

// with is the state with one more volume, which was not read from LVM.
func (v *poolState) with(lv logicalVolume) *poolState {
	next := *v
	next.volumes = maps.Clone(v.volumes)
	next.volumes[lv.name] = lv
	return &next
}

// without is the state less one volume.
func (v *poolState) without(name string) *poolState {
	next := *v
	next.volumes = maps.Clone(v.volumes)
	delete(next.volumes, name)
	return &next
}

// findOurs returns a volume or snapshot of Holdfast's by its name, nil when there is none. A
// logical volume with the name but without our tag is refused: it is never touched.
func (v *poolState) findOurs(name string) (*logicalVolume, error) {
	found, ok := v.volumes[name]
	switch {
	case !ok:
		return nil, nil
	case !found.hasTag(tagOurs):
		return nil, fsm.Reject(fsm.Precondition, "the logical volume %s has no tag %s: it is not ours", name, tagOurs)
	}
	return &found, nil
}

// lvsColumns are the columns that a poolState is parsed from. None of them makes LVM query the
// kernel about each volume.
const lvsColumns = "vg_uuid,vg_extent_size,lv_name,lv_uuid,lv_size,lv_tags,lv_layout,pool_lv,thin_id,transaction_id,zero,lv_when_full,chunk_size"

// lvRow is one line of the report.
type lvRow struct {
	Group       string `json:"vg_uuid"`
	Extent      string `json:"vg_extent_size"`
	Name        string `json:"lv_name"`
	UUID        string `json:"lv_uuid"`
	Size        string `json:"lv_size"`
	Tags        string `json:"lv_tags"`
	Layout      string `json:"lv_layout"`
	Pool        string `json:"pool_lv"`
	Thin        string `json:"thin_id"`
	Transaction string `json:"transaction_id"`
	Zero        string `json:"zero"`
	WhenFull    string `json:"lv_when_full"`
	Chunk       string `json:"chunk_size"`
}

// parsePoolState parses the report of a pool. If the report lacks the pool, so does the state.
func parsePoolState(report []byte, pool string) (*poolState, error) {
	var all struct {
		Report []struct {
			LV []lvRow `json:"lv"`
		} `json:"report"`
	}
	if err := json.Unmarshal(report, &all); err != nil {
		return nil, fmt.Errorf("read what lvs says: %w", err)
	}
	v := &poolState{volumes: map[string]logicalVolume{}}
	for _, part := range all.Report {
		for i := range part.LV {
			if err := v.addRow(&part.LV[i], pool); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func (v *poolState) addRow(r *lvRow, pool string) error {
	n := numberParser{}
	lv := logicalVolume{name: r.Name, uuid: r.UUID, size: n.parse(r.Size)}
	if r.Tags != "" {
		lv.tags = strings.Split(r.Tags, ",")
	}
	switch {
	case r.Name == pool && slices.Contains(strings.Split(r.Layout, ","), "pool"):
		v.groupUUID, v.pool, v.extentBytes, v.chunkBytes = r.Group, lv, n.parse(r.Extent), n.parse(r.Chunk)
		v.zeroesBlocks, v.errorWhenFull = r.Zero == "zero", r.WhenFull == "error"
		v.transaction = uint64(n.parse(r.Transaction))
	case r.Pool == pool:
		lv.thinID = uint64(n.parse(r.Thin))
		v.volumes[r.Name] = lv
	}
	if n.err != nil {
		return fmt.Errorf("read what lvs says of %s: %w", r.Name, n.err)
	}
	return nil
}

// numberParser parses columns and keeps the first error.
type numberParser struct{ err error }

func (n *numberParser) parse(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err == nil && value < 0 {
		err = fmt.Errorf("%s is below zero", text)
	}
	if err != nil && n.err == nil {
		n.err = err
	}
	return value
}

// stateTTL is how long a cached state is used while this process changes nothing; no other process
// changes what is ours. Callers that create or remove something always read it again.
const stateTTL = 10 * time.Second

// stateCache keeps the last state. Concurrent callers share one command.
type stateCache struct {
	query     func(ctx context.Context) (*poolState, error)
	querySlot chan struct{} // held by the caller that queries LVM

	mu      sync.Mutex
	changes uint64 // counts the changes
	cached  cachedState
}

type cachedState struct {
	state   *poolState
	err     error
	at      time.Time
	changes uint64 // the count before the query
}

func newStateCache(query func(ctx context.Context) (*poolState, error)) *stateCache {
	return &stateCache{query: query, querySlot: make(chan struct{}, 1)}
}

// invalidate records that something was, or is about to be, changed: older states are not used any
// more.
func (c *stateCache) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
}

// store keeps the state after a change that the holder of the change lock made, so that LVM need
// not be queried.
func (c *stateCache) store(v *poolState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cached = cachedState{state: v, at: time.Now(), changes: c.changes}
}

// refresh returns a state whose query began after the call.
func (c *stateCache) refresh(ctx context.Context) (*poolState, error) {
	c.invalidate()
	return c.get(ctx)
}

// get returns a state that is not older than stateTTL and includes every change.
func (c *stateCache) get(ctx context.Context) (*poolState, error) {
	if a, ok := c.lookup(); ok {
		return a.state, a.err
	}
	select {
	case c.querySlot <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for lvs: %w", ctx.Err())
	}
	defer func() { <-c.querySlot }()
	if a, ok := c.lookup(); ok {
		return a.state, a.err
	}
	c.mu.Lock()
	answer := cachedState{at: time.Now(), changes: c.changes}
	c.mu.Unlock()
	answer.state, answer.err = c.query(ctx)
	if answer.err == nil || errors.Is(answer.err, errNoGroup) {
		c.mu.Lock()
		c.cached = answer
		c.mu.Unlock()
	}
	return answer.state, answer.err
}

func (c *stateCache) lookup() (cachedState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cached, c.cached.changes == c.changes && time.Since(c.cached.at) < stateTTL
}
