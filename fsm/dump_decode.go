package fsm

import (
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// dumpDecoder turns records back into a state.
type dumpDecoder struct {
	s         *State
	texts     []string
	bytes     [][]byte // the same texts as bytes, where a record needed them so
	sets      [][]Topology
	kind      int
	lastID    string
	lastIndex uint64
	cluster   bool
}

// errRef: a reference to a text or requisite that did not come before.
var errRef = errors.New("it refers to a value that is not in the snapshot")

// errOrder: a record whose key is not above the one before it, or that another record excludes.
var errOrder = errors.New("it is out of order")

// errForm: a record that no state could have written.
var errForm = errors.New("it is malformed")

// add decodes one record into the state; records come in the order of their kinds.
func (x *dumpDecoder) add(rec *fsmpb.Record) error {
	switch k := rec.GetKind().(type) {
	case *fsmpb.Record_Text:
		return x.section(1, "text", x.text(k.Text))
	case *fsmpb.Record_Requisite:
		return x.section(2, "requisite", x.requisite(k.Requisite))
	case *fsmpb.Record_Cluster:
		return x.section(3, "cluster", x.clusterRecord(k.Cluster))
	case *fsmpb.Record_Node:
		return x.section(4, "node", x.node(k.Node))
	case *fsmpb.Record_Volume:
		return x.section(5, "volume", x.volume(k.Volume))
	case *fsmpb.Record_Answer:
		return x.section(6, "answer", x.answer(k.Answer))
	case *fsmpb.Record_Snapshot:
		return x.section(7, "snapshot", x.snapshot(k.Snapshot))
	case *fsmpb.Record_Group:
		return x.section(8, "group", x.group(k.Group))
	case *fsmpb.Record_VolumeGroup:
		return x.section(volumeGroupSection, "volume group", x.volumeGroup(k.VolumeGroup))
	case *fsmpb.Record_Fence:
		return x.section(9, "fence", x.fence(k.Fence))
	case *fsmpb.Record_Revocation:
		return x.section(revocationSection, "revocation", x.revocation(k.Revocation))
	case *fsmpb.Record_JoinToken:
		return x.section(joinTokenSection, "join token", x.joinToken(k.JoinToken))
	}
	return errors.New("a record of a kind that this build does not know")
}

func (x *dumpDecoder) section(kind int, name string, err error) error {
	if err == nil && kind < x.kind {
		err = errOrder
	}
	if err != nil {
		return fmt.Errorf("%s record: %w", name, err)
	}
	x.kind = kind
	return nil
}

// checkOrder refuses a key that is not above the last one of its kind.
func (x *dumpDecoder) checkOrder(kind int, id string) error {
	if x.kind == kind && id <= x.lastID {
		return errOrder
	}
	x.lastID = id
	return nil
}

func (x *dumpDecoder) text(t *fsmpb.Text) error {
	text := string(t.GetValue())
	if text == "" {
		return errForm
	}
	x.texts, x.bytes = append(x.texts, sharedFSType(text)), append(x.bytes, nil)
	return x.checkOrder(1, text)
}

// textAt is the text that a reference stands for.
func (x *dumpDecoder) textAt(ref uint32, err *error) string {
	if ref == 0 {
		return ""
	}
	if int64(ref) > int64(len(x.texts)) {
		*err = errRef
		return ""
	}
	return x.texts[ref-1]
}

// bytesAt is the text as bytes, shared by all records that refer to it.
func (x *dumpDecoder) bytesAt(ref uint32, err *error) []byte {
	text := x.textAt(ref, err)
	if text == "" {
		return nil
	}
	if x.bytes[ref-1] == nil {
		x.bytes[ref-1] = []byte(text)
	}
	return x.bytes[ref-1]
}

func (x *dumpDecoder) requisite(r *fsmpb.RequisiteRecord) (err error) {
	set := make([]Topology, 0, len(r.GetTerms()))
	for _, t := range r.GetTerms() {
		refs := t.GetLabels()
		if len(refs)%2 != 0 {
			return errForm
		}
		var term Topology
		for i := 0; i < len(refs); i += 2 {
			term = append(term, Label{Key: x.textAt(refs[i], &err), Value: x.textAt(refs[i+1], &err)})
		}
		set = append(set, term)
	}
	x.sets = append(x.sets, set)
	return err
}
