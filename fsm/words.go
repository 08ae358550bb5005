package fsm

// The words for kinds, states and phases, as operators, metrics and events have them. A number
// that is none of these is the empty text.

var (
	operationKindWords = [...]string{
		OpCreate: "create", OpDelete: "delete", OpTeardown: "teardown", OpSnapshot: "snapshot",
		OpExpand: "expand", OpModify: "modify", OpReplicaChange: "replicate",
	}
	operationStateWords = [...]string{OpRunning: "running", OpFailed: "failed", OpCancelled: "cancelled"}
	nodeStateWords      = [...]string{NodeReachable: "reachable", NodeUnreachable: "unreachable", NodeLost: "lost"}
	replicaStateWords   = [...]string{
		ReplicaPlanned: "planned", ReplicaPresent: "present", ReplicaMissing: "missing", ReplicaGone: "gone", ReplicaLeaving: "leaving",
	}
	snapshotPhaseWords = [...]string{SnapshotTaking: "cutting", SnapshotReady: "ready", SnapshotDeleting: "deleting", SnapshotFailed: "failed"}
	groupPhaseWords    = [...]string{
		GroupFreezing: "freezing", GroupTaking: "cutting", GroupReady: "ready", GroupAborting: "aborting", GroupDeleting: "deleting",
	}
)

// wordOf is the word of a number, empty for one without.
func wordOf[N ~uint8](words []string, n N) string {
	if int(n) >= len(words) {
		return ""
	}
	return words[n]
}

func (k OperationKind) String() string { return wordOf(operationKindWords[:], k) }

func (s OperationState) String() string { return wordOf(operationStateWords[:], s) }

func (s NodeState) String() string { return wordOf(nodeStateWords[:], s) }

func (s ReplicaState) String() string { return wordOf(replicaStateWords[:], s) }

func (p SnapshotPhase) String() string { return wordOf(snapshotPhaseWords[:], p) }

func (p GroupPhase) String() string { return wordOf(groupPhaseWords[:], p) }

// PhaseName is the word for a volume's phase, empty for none.
func PhaseName(p Phase) string {
	switch p.(type) {
	case Creating:
		return "creating"
	case Ready:
		return "ready"
	case Deleting:
		return "deleting"
	case Failed:
		return "failed"
	}
	return ""
}
