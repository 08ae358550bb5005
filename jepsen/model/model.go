package model

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// Kind is which call an operation was.
type Kind uint8

// The calls that the model knows.
const (
	Create Kind = iota + 1
	Delete
	Get
	Publish
	Unpublish
	Expand
	// Modify and List change and read nothing that the model has; they are not judged by it.
	Modify
	List
)

// Reads tells whether the call changes nothing.
func (k Kind) Reads() bool { return k == Get || k == List }

// Judged tells whether the model can tell a right answer to the call from a wrong one.
func (k Kind) Judged() bool { return k != Modify && k != List }

func (k Kind) String() string {
	return [...]string{"?", "create", "delete", "get", "publish", "unpublish", "expand", "modify", "list"}[k]
}

// Outcome is what a call answered.
type Outcome uint8

// The answers that the model distinguishes.
const (
	// Unknown: no answer, or one that leaves open whether the call took effect.
	Unknown Outcome = iota + 1
	OK
	// NotFound: there is no volume with this id.
	NotFound
	// Exists: the name is taken by a volume with other parameters.
	Exists
	// Precondition: the volume is published, to another node or at all.
	Precondition
)

func (o Outcome) String() string {
	return [...]string{"?", "unknown", "ok", "not found", "already exists", "failed precondition"}[o]
}

// Input is a call on the volume with a name.
type Input struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`   // not for Create
	Size int64  `json:"size,omitempty"` // required_bytes of Create and Expand; without a limit
	Node string `json:"node,omitempty"` // for Publish and Unpublish
}

// Output is its answer.
type Output struct {
	Outcome Outcome `json:"outcome"`
	ID      string  `json:"id,omitempty"`   // of Create
	Node    string  `json:"node,omitempty"` // of Get: where it is published
	Size    int64   `json:"size,omitempty"` // of Expand: the size that it has
	// Index is the log index that the answer is from, zero when it has none. FromState tells that it is
	// of a state that was read and not of the call's own entry.
	Index     uint64 `json:"index,omitempty"`
	FromState bool   `json:"from_state,omitempty"`
}

// state is one name's volume.
type state struct {
	present bool
	id      string // empty while no answer named it
	size    int64
	node    string // where it is published; empty when nowhere
	deleted string // ids that were deleted, each with a comma; none may come back
}

func (s state) markDeleted(id string) bool {
	return id != "" && slices.Contains(splitIDs(s.deleted), id)
}

func splitIDs(list string) []string {
	var parts []string
	for len(list) > 0 {
		i := slices.Index([]byte(list), ',')
		parts, list = append(parts, list[:i]), list[i+1:]
	}
	return parts
}

// maybeVolume reports whether the state can be the volume with an id.
func (s state) maybeVolume(id string) bool {
	return s.present && !s.markDeleted(id) && (s.id == "" || s.id == id)
}

// satisfiesSize reports whether the volume is large enough for a create that names no limit.
func (s state) satisfiesSize(in Input) bool { return s.size >= in.Size }

// Registry is the model. Its inputs are Input, its outputs Output.
func Registry() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: byName,
		Init:      func() []any { return []any{state{}} },
		Step: func(s, in, out any) []any {
			return stepModel(s.(state), in.(Input), out.(Output))
		},
		DescribeOperation: describe,
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

func describe(in, out any) string {
	i, o := in.(Input), out.(Output)
	return fmt.Sprintf("%s %s %s %s -> %s %s %s", i.Kind, i.Name, i.ID, i.Node, o.Outcome, o.ID, o.Node)
}

func byName(history []porcupine.Operation) [][]porcupine.Operation {
	var names []string
	of := map[string][]porcupine.Operation{}
	for _, op := range history {
		name := op.Input.(Input).Name
		if _, known := of[name]; !known {
			names = append(names, name)
		}
		of[name] = append(of[name], op)
	}
	var parts [][]porcupine.Operation
	for _, name := range names {
		parts = append(parts, of[name])
	}
	return parts
}

// stepModel is every state that a call with its answer may leave; none when the answer is wrong.
func stepModel(s state, in Input, out Output) []any {
	if out.Outcome == Unknown {
		return []any{s, nextState(s, in, out)}
	}
	var states []any
	if isAllowed(s, in, out) {
		states = append(states, nextState(s, in, out))
	}
	if in.Kind == Expand && out.Outcome == NotFound && s.maybeVolume(in.ID) {
		// It grew, and was deleted while its host worked: the answer is of the end, others may have seen it grown.
		states = append(states, applyByID(s, in))
	}
	return states
}

// isAllowed reports whether the answer may be given in the state.
func isAllowed(s state, in Input, out Output) bool {
	switch in.Kind {
	case Create:
		return allowedCreate(s, in, out)
	case Delete:
		return out.Outcome == OK && (!s.maybeVolume(in.ID) || s.node == "") ||
			out.Outcome == Precondition && s.maybeVolume(in.ID) && s.node != ""
	case Get:
		return out.Outcome == OK && s.maybeVolume(in.ID) && s.node == out.Node ||
			out.Outcome == NotFound && !surelyHas(s, in.ID)
	case Publish:
		return out.Outcome == OK && s.maybeVolume(in.ID) && (s.node == "" || s.node == in.Node) ||
			out.Outcome == Precondition && s.maybeVolume(in.ID) && s.node != "" && s.node != in.Node ||
			out.Outcome == NotFound && !surelyHas(s, in.ID)
	case Expand:
		return out.Outcome == OK && s.maybeVolume(in.ID) && out.Size == max(s.size, in.Size) ||
			out.Outcome == NotFound && !surelyHas(s, in.ID)
	case Unpublish:
		return out.Outcome == OK || out.Outcome == NotFound && !surelyHas(s, in.ID)
	}
	return false
}

// surelyHas reports whether the state is surely the volume with an id. One whose id was
// never answered may be it or not.
func surelyHas(s state, id string) bool { return s.present && s.id == id }

func allowedCreate(s state, in Input, out Output) bool {
	switch out.Outcome {
	case OK:
		return !s.markDeleted(out.ID) && (!s.present || s.satisfiesSize(in) && s.maybeVolume(out.ID))
	case Exists:
		return s.present && !s.satisfiesSize(in)
	default:
		return false
	}
}

// nextState is the state after the call, were it done now.
func nextState(s state, in Input, out Output) state {
	if out.Outcome != OK && out.Outcome != Unknown {
		return s
	}
	switch in.Kind {
	case Create:
		if !s.present {
			return state{present: true, id: out.ID, size: in.Size, deleted: s.deleted}
		}
		if s.id == "" && s.satisfiesSize(in) {
			s.id = out.ID
		}
		return s
	case Get:
		if s.maybeVolume(in.ID) && out.Outcome == OK {
			s.id = in.ID
		}
		return s
	default:
		return applyByID(s, in)
	}
}

// applyByID is the effect of the calls that name a volume by its id.
func applyByID(s state, in Input) state {
	if !s.maybeVolume(in.ID) {
		return s
	}
	switch {
	case in.Kind == Delete && s.node == "":
		return state{deleted: s.deleted + in.ID + ","}
	case in.Kind == Publish && s.node == "":
		s.id, s.node = in.ID, in.Node
	case in.Kind == Expand:
		s.id, s.size = in.ID, max(s.size, in.Size)
	case in.Kind == Unpublish && (in.Node == "" || s.node == in.Node):
		s.id, s.node = in.ID, ""
	}
	return s
}
