package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	hostFile     = "host.json"
	actedFile    = "seen.rec"
	detachedFile = "detached.rec"
	volumesDir   = "volumes"
	bootIDFile   = "/proc/sys/kernel/random/boot_id"
	privateMode  = 0o700
)

// Host is the host's identity (S17): a random id in its data directory, its boot, and the
// pools that it knows.
type Host struct {
	ID     fsm.HostID
	BootID string

	dir   string
	pools map[string]knownPool // by directory
}

type knownPool struct {
	ID       fsm.PoolID `json:"ID"`
	Capacity int64      `json:"Capacity"`
}

// hostRecord is the content of host.json.
type hostRecord struct {
	Format int                  `json:"format,omitempty"` // 0 is 1
	HostID fsm.HostID           `json:"host_id"`
	Pools  map[string]knownPool `json:"pools"`
}

// OpenHost reads the host's identity, and makes a new one in a directory that has none. A
// missing directory is made; one that other users can read is refused, and one that a newer build wrote before anything
// is written into it.
func OpenHost(dir string) (*Host, error) {
	if err := checkFormats(dir); err != nil {
		return nil, err
	}
	for _, folder := range []string{volumesDir, manifestsDir} {
		if err := os.MkdirAll(filepath.Join(dir, folder), privateMode); err != nil {
			return nil, fmt.Errorf("make the data folder %s: %w", dir, err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("look at the data folder %s: %w", dir, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the data folder %s can be read by others: run `chmod 0700 %s`", dir, dir)
	}
	boot, err := os.ReadFile(bootIDFile)
	if err != nil {
		return nil, fmt.Errorf("read the boot id: %w", err)
	}
	h := &Host{BootID: strings.TrimSpace(string(boot)), dir: dir, pools: map[string]knownPool{}}
	return h, h.load()
}

func (h *Host) load() error {
	path := filepath.Join(h.dir, hostFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		h.ID = fsm.HostID(uuid.NewString())
		return h.save()
	}
	if err != nil {
		return fmt.Errorf("read the host's identity: %w", err)
	}
	var r hostRecord
	if err := json.Unmarshal(text, &r); err != nil || r.HostID == "" {
		return fmt.Errorf("the host's identity %s is damaged: restore it, or record the host as lost and begin with an empty data folder", path)
	}
	h.ID = r.HostID
	if r.Pools != nil {
		h.pools = r.Pools
	}
	return nil
}

func (h *Host) save() error {
	text, err := json.MarshalIndent(hostRecord{HostID: h.ID, Pools: h.pools}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the host's identity: %w", err)
	}
	if err := durablefile.Write(filepath.Join(h.dir, hostFile), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the host's identity: %w", err)
	}
	return nil
}

// Dir is the data directory.
func (h *Host) Dir() string { return h.dir }

// PoolAt is the id of the pool that the host has in a directory, empty when it never had
// one there: only such a directory may be made a pool (S12).
func (h *Host) PoolAt(dir string) fsm.PoolID { return h.pools[dir].ID }

// RememberPool records which pool is in a directory. It is called before the pool is used.
func (h *Host) RememberPool(dir string, id fsm.PoolID) error {
	if h.pools[dir].ID == id {
		return nil
	}
	h.pools[dir] = knownPool{ID: id}
	return h.save()
}

// Capacity is the pool's size in bytes, also while the pool is absent: as measured now, else
// as it was measured last.
func (h *Host) Capacity(facts executor.PoolFacts) int64 {
	for dir, known := range h.pools {
		if known.ID != facts.ID {
			continue
		}
		if facts.Absent {
			return known.Capacity
		}
		if known.Capacity != facts.Capacity {
			h.pools[dir] = knownPool{ID: known.ID, Capacity: facts.Capacity}
			_ = h.save() // only a measurement is lost; the next registration takes it again
		}
	}
	return facts.Capacity
}
