package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Result is what one run of the command line left.
type Result struct {
	Code           int // -1 when it did not run or was killed
	Stdout, Stderr string
}

// commands runs the command line against the cluster, and reads what it answers.
type commands struct{ *workspace }

// Run runs the binary with arguments, for as long as Patience has it.
func (c *commands) Run(ctx context.Context, args ...string) Result {
	return run(ctx, c.opts.Spawn, c.opts.Binary, args...)
}

// Run runs a binary of Holdfast with arguments, for as long as Patience has it.
func Run(ctx context.Context, binary string, args ...string) Result {
	return run(ctx, nil, binary, args...)
}

func run(ctx context.Context, spawn func(*exec.Cmd) error, binary string, args ...string) Result {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = os.Environ()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	cmd.WaitDelay = time.Second
	if spawn == nil {
		spawn = (*exec.Cmd).Start
	}
	err := spawn(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	code := cmd.ProcessState.ExitCode()
	if err != nil && code <= 0 {
		code = -1
		fmt.Fprintf(&errOut, "(%v)", err)
	}
	return Result{Code: code, Stdout: out.String(), Stderr: strings.TrimSpace(errOut.String())}
}

// Status is `holdfast status -o json`.
type Status struct {
	Leader  string   `json:"leader"` // empty when unknown
	Term    uint64   `json:"term"`
	Members []Member `json:"members"`
	// Checkpoint is the last that the log holds.
	Checkpoint struct {
		Index uint64 `json:"index"`
	} `json:"checkpoint"`
	FeatureLevel uint32 `json:"feature_level"`
}

// Member is one member as status sees it.
type Member struct {
	ID           string `json:"id"`
	MemberID     string `json:"member_id"`
	Role         string `json:"role"`
	AppliedIndex uint64 `json:"applied_index"`
	StateHash    string `json:"state_hash"`
	HashIndex    uint64 `json:"hash_index"`
	Reachable    bool   `json:"reachable"`
}

// Followers are the reachable followers' ids.
func (s Status) Followers() []string {
	var ids []string
	for _, m := range s.Members {
		if m.Role == "follower" && m.Reachable {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// Agree answers an error unless all members are reachable with equal hashes at one index.
func (s Status) Agree() error {
	var errs []error
	for _, m := range s.Members {
		first := s.Members[0]
		switch {
		case !m.Reachable:
			errs = append(errs, fmt.Errorf("%s is not reachable", m.ID))
		case m.StateHash == "":
			errs = append(errs, fmt.Errorf("%s has no state hash", m.ID))
		case m.HashIndex != first.HashIndex || m.StateHash != first.StateHash:
			errs = append(errs, fmt.Errorf("%s has hash %s at %d, %s has %s at %d", m.ID, m.StateHash,
				m.HashIndex, first.ID, first.StateHash, first.HashIndex))
		}
	}
	if len(s.Members) == 0 {
		errs = append(errs, errors.New("status lists no member"))
	}
	return errors.Join(errs...)
}

// Status asks for the status; an answer without a leader (exit 3) is no error.
func (c *commands) Status(ctx context.Context) (Status, error) {
	res := c.Run(ctx, "status", "--dir", c.Dir, "-o", "json")
	var s Status
	if res.Code != 0 && res.Code != 3 {
		return s, fmt.Errorf("status exited %d: %s", res.Code, res.Stderr)
	}
	if err := json.Unmarshal([]byte(res.Stdout), &s); err != nil {
		return s, fmt.Errorf("status (exit %d, %s): %w", res.Code, res.Stderr, err)
	}
	return s, nil
}

// Leader waits until there is a leader, and answers its id.
func (c *commands) Leader(ctx context.Context) (string, error) {
	var leader string
	err := Poll(ctx, Patience, "a leader", func() (bool, error) {
		s, err := c.Status(ctx)
		leader = s.Leader
		return leader != "", err
	})
	return leader, err
}

// AwaitAgreement waits until every member is reachable and all have one state hash.
func (c *commands) AwaitAgreement(ctx context.Context) error {
	return Poll(ctx, Patience, "all members to agree on the state's hash", func() (bool, error) {
		s, err := c.Status(ctx)
		if err == nil {
			err = s.Agree()
		}
		return err == nil, err
	})
}

// Audit is `holdfast audit -o json`.
type Audit struct {
	Orphans []AuditItem `json:"orphans"`
	Missing []AuditItem `json:"missing"`
	Pending []AuditItem `json:"pending"`
	Checked int         `json:"checked"`
	Code    int         `json:"-"` // of the process
}

// AuditItem is one thing that should not be, or is not there.
type AuditItem struct {
	Node string `json:"node"`
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Path string `json:"path"`
}

// Audit runs the audit; finding something (exit 1) or not knowing (exit 3) is no error.
func (c *commands) Audit(ctx context.Context) (Audit, error) {
	res := c.Run(ctx, "audit", "--dir", c.Dir, "-o", "json")
	a := Audit{Code: res.Code}
	if res.Code == 3 {
		return a, nil
	}
	if err := json.Unmarshal([]byte(res.Stdout), &a); err != nil {
		return a, fmt.Errorf("audit (exit %d, %s): %w", res.Code, res.Stderr, err)
	}
	return a, nil
}

// AwaitCleanAudit waits until an audit finds nothing at all and can know it.
func (c *commands) AwaitCleanAudit(ctx context.Context) error {
	return Poll(ctx, Patience, "a clean audit", func() (bool, error) {
		a, err := c.Audit(ctx)
		if err == nil && (a.Code != 0 || len(a.Orphans)+len(a.Missing)+len(a.Pending) != 0) {
			err = fmt.Errorf("audit says %+v", a)
		}
		return err == nil, err
	})
}
