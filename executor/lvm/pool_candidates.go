package lvm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
)

// candidateColumns are what says whether a logical volume can be a volume.
const candidateColumns = "lv_name,lv_uuid,lv_size,lv_tags,lv_layout,pool_lv,origin,lv_permissions"

type candidateRow struct {
	Name        string `json:"lv_name"`
	UUID        string `json:"lv_uuid"`
	Size        string `json:"lv_size"`
	Tags        string `json:"lv_tags"`
	Layout      string `json:"lv_layout"`
	Pool        string `json:"pool_lv"`
	Origin      string `json:"origin"`
	Permissions string `json:"lv_permissions"`
}

// Candidates lists the logical volumes of the pool's volume group that are not Holdfast's.
func (p *Pool) Candidates(ctx context.Context) ([]executor.ImportCandidate, error) {
	state, err := p.verifyIdentity(p.states.refresh(ctx))
	if err != nil {
		return nil, err
	}
	rows, err := p.readCandidates(ctx)
	if err != nil {
		return nil, err
	}
	var all []executor.ImportCandidate
	for i := range rows {
		if hasWord(rows[i].Layout, "pool") || hasWord(rows[i].Tags, tagOurs) {
			continue
		}
		c, err := p.candidate(ctx, state, rows, &rows[i])
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func hasWord(list, word string) bool { return slices.Contains(strings.Split(list, ","), word) }

func (p *thinPool) readCandidates(ctx context.Context) ([]candidateRow, error) {
	var out bytes.Buffer
	if err := p.tools.query(ctx, &out, "lvs", "--reportformat", "json", "--units", "b", "--nosuffix", "-o", candidateColumns, p.VG); err != nil {
		return nil, fmt.Errorf("query LVM for what is in volume group %s: %w", p.VG, err)
	}
	var all struct {
		Report []struct {
			LV []candidateRow `json:"lv"`
		} `json:"report"`
	}
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		return nil, fmt.Errorf("parse the report of lvs: %w", err)
	}
	var rows []candidateRow
	for _, part := range all.Report {
		rows = append(rows, part.LV...)
	}
	return rows, nil
}

func (p *Pool) candidate(ctx context.Context, state *poolState, rows []candidateRow, r *candidateRow) (executor.ImportCandidate, error) {
	n := numberParser{}
	c := executor.ImportCandidate{Device: r.UUID, Name: r.Name, Size: n.parse(r.Size), Refusal: p.refuseCandidate(state, rows, r)}
	if n.err != nil {
		return c, fmt.Errorf("parse the report of lvs about %s: %w", r.Name, n.err)
	}
	d, err := p.kernel.device(dmName(p.VG, r.Name))
	switch {
	case err != nil:
		return c, err
	case d == nil:
		c.Detail = fmt.Sprintf("it is not active: `lvchange -ay -K %s/%s` makes it readable", p.VG, r.Name)
		return c, nil
	}
	c.Path, c.Number, c.OpenCount = d.path(), d.number(), d.open
	c.Signatures, err = p.tools.signatures(ctx, c.Path)
	if c.Probed = err == nil; err != nil {
		c.Detail = err.Error()
	}
	return c, nil
}

// refuseCandidate is why LVM cannot have it as a volume of the pool; empty: it can.
func (p *Pool) refuseCandidate(state *poolState, rows []candidateRow, r *candidateRow) string {
	external := externalOrigin(state, rows, r)
	switch {
	case r.Pool != p.ThinPool || !hasWord(r.Layout, "thin"):
		return fmt.Sprintf("it is no thin volume of pool %s, which takes snapshots of all that is in it: copy it while nothing uses it into one that `lvcreate -V %sb --thinpool %s -n NEW %s` makes, or have its own replication make a replica there", p.name(), r.Size, p.name(), p.VG)
	case external != "":
		return fmt.Sprintf("what it has not written itself is in %s, which is not in the pool: copy it into a thin volume of its own", external)
	case r.Permissions != "writeable":
		return fmt.Sprintf("it is read-only: `lvchange -prw %s/%s` ends that", p.VG, r.Name)
	case !namePattern.MatchString(r.Name):
		return fmt.Sprintf("its name is longer than %d characters: rename it", maxNameLength)
	case !state.zeroesBlocks:
		return fmt.Sprintf("pool %s does not zero new blocks: run `lvchange --zero y %s`", p.name(), p.name())
	}
	return ""
}

// externalOrigin is the logical volume outside of the pool that shows through where this one, or one that it is a snapshot
// of, has no block: the pool's own map would have such a block read as zeroes. Empty: there is none.
func externalOrigin(state *poolState, rows []candidateRow, r *candidateRow) string {
	origin := r.Origin
	for range rows {
		if _, inPool := state.volumes[origin]; origin == "" || !inPool {
			return origin
		}
		i := slices.IndexFunc(rows, func(o candidateRow) bool { return o.Name == origin })
		if i < 0 {
			return origin
		}
		origin = rows[i].Origin
	}
	return origin
}

// signatures are the types of all signatures on a device, as wipefs knows them. It only reads.
func (t *tools) signatures(ctx context.Context, path string) ([]string, error) {
	var out bytes.Buffer
	if _, err := t.runner.Run(ctx, run.Command{Tool: "wipefs", Args: []string{"--no-act", "--noheadings", "--output", "TYPE", path}, Stdout: &out}); err != nil {
		return nil, fmt.Errorf("look for signatures on %s: %w", path, err)
	}
	all := strings.Fields(out.String())
	slices.Sort(all)
	return slices.Compact(all), nil
}
