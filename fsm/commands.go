package fsm

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Meta is what a handler knows of the entry besides its command.
type Meta struct {
	Index uint64
	Now   time.Time // the state's clock
	Epoch Epoch     // of a grant that this command would give
	Level uint32    // the least feature level that the command says it needs
	// Proposed is the index that its proposer had applied when it proposed the command first; 0: it
	// is not known.
	Proposed uint64
	endpoint        // where the command came in
	Actor    string // who proposed it
}

// commands is the whole write vocabulary of the cluster, one row per command.
var commands = table(
	on(applyBootstrap, byController),
	on(applyRegisterNode, byNodeItself),
	on(applySetNodeReachable, byController),
	on(applyLoseNode, byAdmin),
	on(applyAdoptNode, byAdmin),
	on(applyCreateVolume, byController),
	on(applyDeleteVolume, byController),
	on(applyExpandVolume, byController),
	on(applyModifyVolume, byController),
	on(applyCreateSnapshot, byController),
	on(applyDeleteSnapshot, byController),
	on(applyCreateGroupSnapshot, byController),
	on(applyDeleteGroupSnapshot, byController),
	on(applyPublishVolume, byController).orOperator(),
	on(applyUnpublishVolume, byController).orOperator(),
	on(applyStageVolume, byNodeItself),
	on(applyPublishTarget, byNodeItself),
	on(applyReport, byNodeItself),
	on(applyCancelOperation, byAdmin).orOperator(),
	on(applyRetryOperation, byAdmin).orOperator(),
	on(applySetFeatureLevel, byController),
	on(applyCheckpoint, byController),
	on(applyReplaceIncarnation, byController),
	on(applyAttachReplica, byNodeItself),
	on(applySetPrimary, byNodeItself),
	on(applyOutdate, byNodeItself),
	on(applyForcePrimary, byAdmin),
	on(applyAddReplica, byController),
	on(applyRemoveReplica, byController),
	on(applyScheduleNode, byAdmin).orOperator(),
	on(applyKeepReplica, byNodeItself),
	on(applyContinueSweep, byController),
	on(applyRegisterMember, byMemberItself),
	on(applyCreateVolumeGroup, byController),
	on(applyModifyVolumeGroup, byController),
	on(applyDeleteVolumeGroup, byController),
	on(applyFenceNetwork, byController),
	on(applyUnfenceNetwork, byController),
	on(applyBeginReclaim, byController),
	on(applyEndReclaim, byController),
	on(applyBeginKeyRotation, byNodeItself),
	on(applyRestoreHeader, byAdmin),
	on(applyEnableReplication, byController),
	on(applyDisableReplication, byController),
	on(applyPromoteReplication, byController),
	on(applyDemoteReplication, byController),
	on(applyResyncReplication, byController),
	on(applyCancelConversion, byController),
	on(applyAdoptVolume, byAdmin),
	on(applyAdoptSnapshot, byAdmin),
	on(applyImportVolume, byAdmin),
	on(applyForgetImport, byAdmin),
	on(applyImportDrbd, byAdmin),
	on(applySetMemberRole, byAdmin),
	on(applyClaimMaintenance, byNodeOrAdmin).orOperator(),
	on(applyRevokeIdentity, byAdmin),
	on(applyUnrevokeIdentity, byAdmin),
	on(applyCreateJoinToken, byAdmin),
	on(applyUseJoinToken, byController),
	on(applyRevokeJoinToken, byAdmin),
	on(applyRecordOperatorCall, byAdmin),
	on(applyUseAttestedToken, byController),
	on(applySetOutOfService, byController).orOperator(),
)

// row is a command's name, who may propose it, and what it does.
type row struct {
	command protoreflect.FullName
	allowed func(actor string, cmd proto.Message) bool
	apply   func(*State, Meta, proto.Message) (*fsmpb.Outcome, *Rejection)
	// operators may propose it too, from level 3 on.
	operators bool
}

func (r row) orOperator() row {
	r.operators = true
	return r
}

// mayPropose tells whether the one who proposed a command may: it is asked on every member, of whoever made the call, not of
// the member that forwarded it.
func (s *State) mayPropose(r row, actor string, cmd proto.Message) bool {
	return r.allowed(actor, cmd) || r.operators && s.level3() && hasRole(actor, "operator/")
}

// handler decides one command. It checks first and writes last: a rejection
// leaves the state unchanged.
type handler[C proto.Message] func(*State, Meta, C) (*fsmpb.Outcome, *Rejection)

func on[C proto.Message](apply handler[C], allowed func(string, proto.Message) bool) row {
	var c C
	return row{
		command: c.ProtoReflect().Descriptor().FullName(),
		allowed: allowed,
		apply: func(s *State, m Meta, cmd proto.Message) (*fsmpb.Outcome, *Rejection) {
			return apply(s, m, cmd.(C))
		},
	}
}

func table(rows ...row) map[protoreflect.FullName]row {
	t := make(map[protoreflect.FullName]row, len(rows))
	for _, r := range rows {
		if _, dup := t[r.command]; dup {
			panic("two handlers for " + string(r.command))
		}
		t[r.command] = r
	}
	return t
}

// oneof is the command inside the envelope.
var oneof = (&fsmpb.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("body")

// NewerCommand is the fault of a command that a newer build proposed. That build applies it.
type NewerCommand string

func (c NewerCommand) Error() string { return string(c) }

func newerf(format string, args ...any) NewerCommand {
	return NewerCommand(fmt.Sprintf(format, args...))
}

// CheckCommand is the NewerCommand that Apply would fault with, nil when this build knows all of the command.
func CheckCommand(index uint64, cmd *fsmpb.Command) (err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case NewerCommand:
			err = cause
		default:
			panic(cause)
		}
	}()
	rowOf(index, cmd)
	return nil
}

// rowOf finds the row of a command. One that this build does not know is a fault: to
// skip it would let the states of the members diverge.
func rowOf(index uint64, cmd *fsmpb.Command) (row, proto.Message) {
	msg := cmd.ProtoReflect()
	field := msg.WhichOneof(oneof)
	if field == nil {
		panic(newerf("log index %d: a command this build does not know; stopping before states diverge", index))
	}
	if needs := cmd.GetSchemaVersion(); needs > MaxFeatureLevel {
		panic(newerf("log index %d: %s needs feature level %d, this build understands %d; stopping before states diverge",
			index, field.Name(), needs, MaxFeatureLevel))
	}
	if _, unknown := commandShape.inspect(msg); unknown {
		panic(newerf("log index %d: %s has a field that this build does not know; stopping before states diverge", index, field.Name()))
	}
	return commands[field.Message().FullName()], msg.Get(field).Message().Interface()
}

// byController: what controllers propose for callers; operators may propose it too.
func byController(actor string, _ proto.Message) bool {
	return hasRole(actor, "controller/") || hasRole(actor, "admin/")
}

// byAdmin: what only an admin may attest.
func byAdmin(actor string, _ proto.Message) bool { return hasRole(actor, "admin/") }

// byNodeItself: what counts only under the certificate of the host concerned (S20).
func byNodeItself(actor string, cmd proto.Message) bool {
	about, ok := cmd.(interface{ GetNodeId() string })
	return ok && hasRole(actor, "node/") && actor[len("node/"):] == about.GetNodeId()
}

// byNodeOrAdmin: what a host says of itself, and an operator of any host.
func byNodeOrAdmin(actor string, cmd proto.Message) bool {
	return byNodeItself(actor, cmd) || byAdmin(actor, cmd)
}

// byMemberItself: a controller says only of itself for which site it acts.
func byMemberItself(actor string, cmd proto.Message) bool {
	about, ok := cmd.(*fsmpb.RegisterMember)
	return ok && actor == "controller/"+about.GetName()
}

// hasRole tells whether the actor has that role.
func hasRole(actor, role string) bool {
	return strings.HasPrefix(actor, role) && len(actor) > len(role)
}
