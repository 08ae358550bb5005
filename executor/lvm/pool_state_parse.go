package lvm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

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
		return nil, fmt.Errorf("parse the report of lvs: %w", err)
	}
	state := &poolState{volumes: map[string]logicalVolume{}, imports: map[fsm.VolumeID]string{}}
	for _, part := range all.Report {
		for i := range part.LV {
			if err := state.addRow(&part.LV[i], pool); err != nil {
				return nil, err
			}
		}
	}
	return state, nil
}

func (s *poolState) addRow(r *lvRow, pool string) error {
	n := numberParser{}
	lv := logicalVolume{name: r.Name, uuid: r.UUID, size: n.parse(r.Size)}
	if r.Tags != "" {
		lv.tags = strings.Split(r.Tags, ",")
	}
	switch {
	case r.Name == pool && slices.Contains(strings.Split(r.Layout, ","), "pool"):
		s.groupUUID, s.pool, s.extentBytes, s.chunkBytes = r.Group, lv, n.parse(r.Extent), n.parse(r.Chunk)
		s.zeroesBlocks, s.errorWhenFull = r.Zero == "zero", r.WhenFull == "error"
		s.transaction = uint64(n.parse(r.Transaction))
	case r.Pool == pool:
		lv.thinID = uint64(n.parse(r.Thin))
		s.volumes[r.Name] = lv
		if id, _ := lv.importedAs(); id != "" {
			s.imports[id] = r.Name
		}
	}
	if n.err != nil {
		return fmt.Errorf("parse the report of lvs about %s: %w", r.Name, n.err)
	}
	return nil
}

// numberParser parses columns and keeps the first error.
type numberParser struct{ err error }

func (n *numberParser) parse(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err == nil && value < 0 {
		err = fmt.Errorf("%s is negative", text)
	}
	if err != nil && n.err == nil {
		n.err = err
	}
	return value
}

func (n *numberParser) parseFraction(text string) (used, all int64) {
	before, after, _ := strings.Cut(text, "/")
	return n.parse(before), n.parse(after)
}
