package raftnode

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// checkEntryLevel refuses an entry that needs a higher feature level than this build understands: Apply would fault on it, after
// Raft had voted and written (S72). What is no command is left to Apply.
func checkEntryLevel(e *raft.Log) error {
	cmd := &fsmpb.Command{}
	if e.Type != raft.LogCommand || proto.Unmarshal(e.Data, cmd) != nil {
		return nil
	}
	if needs := cmd.GetSchemaVersion(); needs > fsm.MaxFeatureLevel {
		return fmt.Errorf("%w: it needs feature level %d, this build understands %d", store.ErrNewer, needs, fsm.MaxFeatureLevel)
	}
	return nil
}

// checkEntryKnown refuses what checkEntryLevel does, and a command or a field that this build does not know: none of it can be
// applied, and nothing else of the log is of use without it.
func checkEntryKnown(e *raft.Log) error {
	if err := checkEntryLevel(e); err != nil {
		return err
	}
	cmd := &fsmpb.Command{}
	if e.Type != raft.LogCommand || proto.Unmarshal(e.Data, cmd) != nil {
		return nil
	}
	if err := fsm.CheckCommand(e.Index, cmd); err != nil {
		return fmt.Errorf("%w: %w", store.ErrNewer, err)
	}
	return nil
}

// checkDumpHeader refuses a Raft snapshot of a newer build, by its first bytes.
func checkDumpHeader(r io.Reader) error {
	if err := fsm.CheckDump(r); err != nil {
		return fmt.Errorf("%w: %w", store.ErrNewer, err)
	}
	return nil
}
