package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/lab/stamps"
)

// randomChecks are those that a random run makes.
var randomChecks = []catalog.Check{
	catalog.Stamps, catalog.NoLostWrite, catalog.OnePrimary, catalog.ReplicasEqual, catalog.Audit, catalog.HashesEqual,
	catalog.Liveness, catalog.ClockOfTheLab, catalog.NothingWasEmpty,
}

// ringBlocks is the length of a writer's ring.
const ringBlocks = 1024

// scanned is what the writer's program found on a device.
type scanned struct {
	Blocks []stamps.Block `json:"blocks"`
	Sums   []string       `json:"sums"`
}

// check ends every writer and every use of the volumes, and looks at what is on the replicas' own devices.
func (r *randomRun) check() {
	for _, s := range r.subjects {
		s.check()
	}
	r.verdict(catalog.Liveness, len(r.subjects), nil) // it waited for each
	r.verdict(catalog.Audit, len(r.lab.Guests()), r.awaitAudit())
	r.verdict(catalog.HashesEqual, len(r.lab.Guests()), r.compareHashes())
	r.verdict(catalog.OnePrimary, len(r.lab.Guests()), r.splitBrain())
	var clocks []error
	for _, g := range r.lab.Guests() {
		clocks = append(clocks, g.CheckClock(r.t.Context()))
	}
	r.verdict(catalog.ClockOfTheLab, len(clocks), errors.Join(clocks...))
}

// verdict records what a check found, and fails the run if that is anything.
func (r *randomRun) verdict(c catalog.Check, looked int, found error) {
	r.record.Check(c, looked, found)
	if found != nil {
		r.fatalf(r.t, "%s %s: %v", r.since(), c, found)
	}
}

// check ends the use of the volume and judges each replica: one alone while it is in use, since nobody else has its
// device open then; two when both are secondary and up to date.
func (s *subject) check() {
	s.end(s.writer())
	var found []scanned
	if !s.replicated() {
		found = append(found, s.scan(s.holder))
	}
	s.release()
	s.readAcks()
	if s.replicated() {
		s.awaitIdle()
		for _, node := range s.v.hosts {
			found = append(found, s.scan(node))
		}
	}
	s.judge(found)
}

// awaitIdle waits until both kernels call both replicas up to date and secondary, and the log does: the faults of
// the next round may take either host away.
func (s *subject) awaitIdle() {
	for _, node := range s.v.hosts {
		var handshake time.Time // since when it exchanges parameters
		eventually(s.r.t, 2*resyncTimeout, node+": both replicas of "+s.v.name+" are up to date and unused", func(ctx context.Context) error {
			d, err := s.r.kernel(ctx, s.v, node)
			if err != nil || isIdle(d) {
				return err
			}
			if d.connection != "WFReportParams" || handshake.IsZero() {
				handshake = time.Now()
			}
			if time.Since(handshake) > handshakePatience {
				s.r.restartHost(node, "DRBD stays in WFReportParams")
			}
			return fmt.Errorf("it is %+v", d)
		})
	}
	s.r.awaitUnused(s.r.t, s.v)
}

// handshakePatience is for how long the kernels may exchange what takes them two messages. Nothing else ends a
// handshake that waits for a flush in flight.
const handshakePatience = 90 * time.Second

func isIdle(d drbdState) bool {
	return isUpToDate(d) && d.role == "Secondary" && d.peerRole == "Secondary"
}

// scan reads the device below a replica.
func (s *subject) scan(node string) (found scanned) {
	out := s.r.mustExec(s.r.t, node, fmt.Sprintf("/run/lab/writer scan --direct --path /dev/mapper/%s --bytes %d", s.v.device(), s.v.size))
	s.r.must(json.Unmarshal([]byte(out), &found))
	return found
}

func (s *subject) judge(found []scanned) {
	var wrong []string
	for i, f := range found {
		for _, finding := range stamps.Judge(f.Blocks, s.turns, ringBlocks) {
			wrong = append(wrong, fmt.Sprintf("%s, replica %d of %v: %s", s.v.name, i+1, s.v.hosts, finding))
		}
	}
	if len(wrong) > 0 {
		s.r.t.Logf("turns of %s: %+v", s.v.name, s.turns)
	}
	s.r.verdict(catalog.Stamps, len(s.turns), findings(wrong))
	s.r.verdict(catalog.NoLostWrite, int(s.turns[len(s.turns)-1].Acked), findings(wrong))
	if len(found) == 2 {
		s.r.verdict(catalog.ReplicasEqual, len(found[0].Sums), s.compare(found[0], found[1]))
	}
	s.r.t.Logf("%s %s: %d turns, %d stamps acknowledged", s.r.since(), s.v.name, len(s.turns), s.turns[len(s.turns)-1].Acked)
}

// findings makes an error of what is wrong, with the first of it.
func findings(wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d findings, the first: %s", len(wrong), strings.Join(wrong[:min(5, len(wrong))], "; "))
}

// compare finds what differs between two replicas that call themselves equal.
func (s *subject) compare(one, other scanned) error {
	if len(one.Sums) != len(other.Sums) {
		return fmt.Errorf("%s has %d MiB on %s and %d on %s", s.v.name, len(one.Sums), s.v.hosts[0], len(other.Sums), s.v.hosts[1])
	}
	var differ []int
	for i := range one.Sums {
		if one.Sums[i] != other.Sums[i] {
			differ = append(differ, i)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("the replicas of %s differ in the MiB %v", s.v.name, differ)
}

// awaitAudit waits until hosts and log agree: what a host tears down is not gone at once.
func (r *randomRun) awaitAudit() error {
	ctx, cancel := context.WithTimeout(r.t.Context(), timeout)
	defer cancel()
	for {
		out, code, err := r.cluster.Admin(ctx, "audit")
		if err == nil && code == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("exit code %d: %w: %s", code, err, strings.TrimSpace(out))
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// compareHashes compares the states of all controllers at one index, as soon as all answer.
func (r *randomRun) compareHashes() (differ error) {
	eventually(r.t, timeout, "all controllers say the hash of their state", func(ctx context.Context) error {
		var status struct {
			Members []struct {
				ID    string      `json:"id"`
				Hash  string      `json:"state_hash"`
				Index json.Number `json:"hash_index"`
			} `json:"members"`
		}
		if err := r.cluster.Ask(ctx, &status, "status"); err != nil {
			return err
		}
		hashes := map[string]string{}
		for _, m := range status.Members {
			if m.Hash == "" {
				return fmt.Errorf("%s does not", m.ID)
			}
			hashes[m.Index.String()+" "+m.Hash] = m.ID
		}
		if differ = nil; len(hashes) > 1 {
			differ = fmt.Errorf("the controllers' states differ: %v", hashes)
		}
		return nil
	})
	return differ
}

// splitBrain: no kernel saw one since the scenario began.
func (r *randomRun) splitBrain() error {
	for _, g := range r.lab.Guests() {
		if strings.Contains(g.Console()[r.lastError[g.Index]:], "Split-Brain") {
			return fmt.Errorf("the kernel of %s saw a split brain", g.Name())
		}
	}
	return nil
}
