package lvm

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// checkOrphans looks for thin devices in the pool's metadata that LVM does not know: LVM would use
// one for a new volume, and expose its data. They are not removed, since their owner is unknown.
// The caller holds the change lock.
func (m *metadataSnap) checkOrphans(ctx context.Context, pool string, state *poolState) error {
	m.mu.Lock()
	sound := m.noOrphans
	m.mu.Unlock()
	if sound {
		return nil
	}
	var out bytes.Buffer
	err := m.with(ctx, pool, func(device string) error {
		return m.tools.runThinTool(ctx, &out, "thin_ls", "-m", "--no-headers", "-o", "DEV", device)
	})
	if err != nil {
		return fmt.Errorf("look for thin devices of pool %s that LVM does not know: %w", m.name(), err)
	}
	orphans, err := unknownThinIDs(out.String(), state)
	if err != nil {
		return err
	}
	if len(orphans) > 0 {
		return fmt.Errorf("%w: pool %s takes nothing new, for a new volume could show their data: devices %s; see what they are, and remove them with `dmsetup message %s 0 \"delete ID\"`",
			errOrphan, m.name(), strings.Join(orphans, ", "), pool)
	}
	m.setNoOrphans(true)
	return nil
}

// unknownThinIDs are the thin devices of a list that belong to no logical volume.
func unknownThinIDs(list string, state *poolState) ([]string, error) {
	known := map[uint64]bool{}
	for _, lv := range state.volumes {
		known[lv.thinID] = true
	}
	var orphans []string
	for _, field := range strings.Fields(list) {
		id, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("parse the output of thin_ls: %q is no device", field)
		}
		if !known[id] {
			orphans = append(orphans, field)
		}
	}
	return orphans, nil
}
