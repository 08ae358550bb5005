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

// view is what LVM says of a pool and of all that is in it, in one command.
type view struct {
	group       string // the volume group's UUID
	extent      int64  // bytes
	pool        volume
	chunk       int64 // bytes
	zero        bool  // new blocks are zeroed
	errors      bool  // a full pool fails writes at once
	transaction uint64
	volumes     map[string]volume // by name, ours and others'
}

// volume is one logical volume.
type volume struct {
	name, uuid string
	size       int64 // bytes, in whole extents
	tags       []string
	thin       uint64 // the device's id in the pool
}

func (v *volume) has(tag string) bool { return slices.Contains(v.tags, tag) }

// tagged is what follows a tag's prefix; empty without it.
func (v *volume) tagged(prefix string) string {
	for _, tag := range v.tags {
		if rest, ok := strings.CutPrefix(tag, prefix); ok {
			return rest
		}
	}
	return ""
}

// nominal is how many bytes the volume was made with, never more than it has.
func (v *volume) nominal() (int64, error) {
	size, err := strconv.ParseInt(v.tagged(tagSize), 10, 64)
	if err != nil || size <= 0 || size > v.size {
		return 0, fsm.Reject(fsm.Precondition, "the tags %s of %s do not say its size of at most %d bytes", strings.Join(v.tags, ","), v.name, v.size)
	}
	return size, nil
}

// identity is the id that the pool carries.
func (v *view) identity() (fsm.PoolID, error) {
	switch id := v.pool.tagged(tagPool); {
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

// with is the view and one more volume, which LVM was not asked about.
func (v *view) with(lv volume) *view {
	now := *v
	now.volumes = maps.Clone(v.volumes)
	now.volumes[lv.name] = lv
	return &now
}

// without is the view less one volume.
func (v *view) without(name string) *view {
	now := *v
	now.volumes = maps.Clone(v.volumes)
	delete(now.volumes, name)
	return &now
}

// find is a volume or snapshot of ours by its name, nil when there is none. What has
// the name and not our tag is refused: it is never touched.
func (v *view) find(name string) (*volume, error) {
	found, ok := v.volumes[name]
	switch {
	case !ok:
		return nil, nil
	case !found.has(tagOurs):
		return nil, fsm.Reject(fsm.Precondition, "the logical volume %s has no tag %s: it is not ours", name, tagOurs)
	}
	return &found, nil
}

// fields are the columns that a view is made of. None of them makes LVM ask the
// kernel about each volume.
const fields = "vg_uuid,vg_extent_size,lv_name,lv_uuid,lv_size,lv_tags,lv_layout,pool_lv,thin_id,transaction_id,zero,lv_when_full,chunk_size"

// row is one line of the report.
type row struct {
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

// parseView reads the report of a pool. Without the pool in it the view has none.
func parseView(report []byte, pool string) (*view, error) {
	var all struct {
		Report []struct {
			LV []row `json:"lv"`
		} `json:"report"`
	}
	if err := json.Unmarshal(report, &all); err != nil {
		return nil, fmt.Errorf("read what lvs says: %w", err)
	}
	v := &view{volumes: map[string]volume{}}
	for _, part := range all.Report {
		for i := range part.LV {
			if err := v.add(&part.LV[i], pool); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func (v *view) add(r *row, pool string) error {
	n := numbers{}
	lv := volume{name: r.Name, uuid: r.UUID, size: n.read(r.Size)}
	if r.Tags != "" {
		lv.tags = strings.Split(r.Tags, ",")
	}
	switch {
	case r.Name == pool && slices.Contains(strings.Split(r.Layout, ","), "pool"):
		v.group, v.pool, v.extent, v.chunk = r.Group, lv, n.read(r.Extent), n.read(r.Chunk)
		v.zero, v.errors = r.Zero == "zero", r.WhenFull == "error"
		v.transaction = uint64(n.read(r.Transaction))
	case r.Pool == pool:
		lv.thin = uint64(n.read(r.Thin))
		v.volumes[r.Name] = lv
	}
	if n.err != nil {
		return fmt.Errorf("read what lvs says of %s: %w", r.Name, n.err)
	}
	return nil
}

// numbers reads columns and keeps the first error.
type numbers struct{ err error }

func (n *numbers) read(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err == nil && value < 0 {
		err = fmt.Errorf("%s is below zero", text)
	}
	if err != nil && n.err == nil {
		n.err = err
	}
	return value
}

// viewLife is how long a view is believed while nothing was changed by this process,
// which alone changes what is ours. Who makes or removes something never believes one.
const viewLife = 10 * time.Second

// views keeps the last view. Many who ask at once are answered by one command.
type views struct {
	ask func(ctx context.Context) (*view, error)
	one chan struct{} // held by whoever asks

	mu     sync.Mutex
	change uint64 // counts what was changed
	last   answer
}

type answer struct {
	view   *view
	err    error
	at     time.Time
	change uint64 // as it was before it was asked
}

func newViews(ask func(ctx context.Context) (*view, error)) *views {
	return &views{ask: ask, one: make(chan struct{}, 1)}
}

// forget says that something was, or is about to be, changed.
func (c *views) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.change++
}

// know keeps what whoever is alone has just changed, so that nobody need ask for it.
func (c *views) know(v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = answer{view: v, at: time.Now(), change: c.change}
}

// fresh is a view that was asked for after the call began.
func (c *views) fresh(ctx context.Context) (*view, error) {
	c.forget()
	return c.recent(ctx)
}

// recent is a view that is not old and that nothing was changed since.
func (c *views) recent(ctx context.Context) (*view, error) {
	if a, ok := c.kept(); ok {
		return a.view, a.err
	}
	select {
	case c.one <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for lvs: %w", ctx.Err())
	}
	defer func() { <-c.one }()
	if a, ok := c.kept(); ok {
		return a.view, a.err
	}
	c.mu.Lock()
	now := answer{at: time.Now(), change: c.change}
	c.mu.Unlock()
	now.view, now.err = c.ask(ctx)
	if now.err == nil || errors.Is(now.err, errNoGroup) {
		c.mu.Lock()
		c.last = now
		c.mu.Unlock()
	}
	return now.view, now.err
}

func (c *views) kept() (answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.last.change == c.change && time.Since(c.last.at) < viewLife
}
