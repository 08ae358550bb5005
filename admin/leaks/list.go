package leaks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/holdfast-storage/holdfast/fsm"
)

// List is what an orchestrator has. What it says nothing of is not compared.
type List struct {
	HasVolumes, HasSnapshots, HasAttachments bool
	Volumes, Snapshots                       []Object
	Attachments                              []Attachment
}

// Object is the orchestrator's own record of a volume or a snapshot.
type Object struct {
	Handle string // its id at Holdfast
	Name   string // of the record; empty in a plain list
	Claim  string // namespace/name; empty: none
}

// Attachment says that a volume is attached to a node.
type Attachment struct{ Name, PV, Node string }

// ErrNothing is wrapped where a whole list has nothing of the driver.
var ErrNothing = errors.New("everything would be a leak")

// Read reads the output of `kubectl get -o json` for PersistentVolumes, VolumeSnapshotContents and VolumeAttachments of the
// driver, one document or several, or a plain list with an id on each line. What is not wholly a list, is a part of one, or
// has nothing of the driver is an error; with ErrNothing the list is answered too.
func Read(from io.Reader, driver string) (*List, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("read the list: %w", err)
	}
	l := &List{}
	switch first := bytes.TrimLeftFunc(text, unicode.IsSpace); {
	case len(first) == 0:
		return nil, errors.New("the list is empty: everything would be a leak")
	case first[0] == '{' || first[0] == '[':
		err = l.readDocuments(text, driver)
	default:
		err = l.readLines(string(text))
	}
	if err == nil && len(l.Volumes)+len(l.Snapshots) == 0 {
		return l, fmt.Errorf("the list has nothing of driver %s: %w", driver, ErrNothing)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l *List) readLines(text string) error {
	if !strings.HasSuffix(text, "\n") {
		return errors.New("the list's last line has no end: it may be cut short")
	}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch id := strings.TrimSpace(line); {
		case id == "" || id[0] == '#':
		case fsm.VolumeID(id).Valid():
			l.HasVolumes, l.Volumes = true, append(l.Volumes, Object{Handle: id})
		case fsm.SnapshotID(id).Valid():
			l.HasSnapshots, l.Snapshots = true, append(l.Snapshots, Object{Handle: id})
		default:
			return fmt.Errorf("line %d of the list is neither a volume's id nor a snapshot's: %q", i+1, fsm.Clip(id))
		}
	}
	return nil
}

// document is a list, or an object, of those that are read; the fields are Kubernetes'.
type document struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string `json:"name"`
		Continue  string `json:"continue"`
		Remaining int64  `json:"remainingItemCount"`
	} `json:"metadata"`
	Items []document `json:"items"`
	Spec  struct {
		CSI *struct {
			Driver string `json:"driver"`
			Handle string `json:"volumeHandle"`
		} `json:"csi"`
		ClaimRef struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"claimRef"`
		Driver   string `json:"driver"`
		Attacher string `json:"attacher"`
		NodeName string `json:"nodeName"`
		Source   struct {
			PV       string `json:"persistentVolumeName"`
			Snapshot string `json:"snapshotHandle"`
		} `json:"source"`
		SnapshotRef struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"volumeSnapshotRef"`
	} `json:"spec"`
	Status struct {
		Attached bool   `json:"attached"`
		Snapshot string `json:"snapshotHandle"`
	} `json:"status"`
}

func (l *List) readDocuments(text []byte, driver string) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var d document
		switch err := decoder.Decode(&d); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the list is not wholly JSON, it may be cut short: %w", err)
		}
		if d.Metadata.Continue != "" || d.Metadata.Remaining > 0 {
			return errors.New("the list is the first part of a longer one: ask for it without --chunk-size or limit")
		}
		if err := l.add(&d, driver); err != nil {
			return err
		}
	}
}

func (l *List) add(d *document, driver string) error {
	kind, isList := strings.CutSuffix(d.Kind, "List")
	switch kind {
	case "PersistentVolume":
		l.HasVolumes = true
	case "VolumeSnapshotContent":
		l.HasSnapshots = true
	case "VolumeAttachment":
		l.HasAttachments = true
	case "":
		if !isList {
			return errors.New("the list has an object without a kind: give it the output of kubectl get -o json")
		}
	default:
		return fmt.Errorf("the list has a %s: give it persistentvolumes, volumesnapshotcontents and volumeattachments", fsm.Clip(d.Kind))
	}
	if !isList {
		l.addObject(d, driver)
	}
	for i := range d.Items {
		item := &d.Items[i]
		if item.Kind == "" {
			item.Kind = kind
		}
		if strings.HasSuffix(item.Kind, "List") {
			return errors.New("the list has a list in it")
		}
		if err := l.add(item, driver); err != nil {
			return err
		}
	}
	return nil
}

func (l *List) addObject(d *document, driver string) {
	switch s := &d.Spec; {
	case d.Kind == "PersistentVolume" && s.CSI != nil && s.CSI.Driver == driver:
		l.Volumes = append(l.Volumes, Object{Handle: s.CSI.Handle, Name: d.Metadata.Name, Claim: qualified(s.ClaimRef.Namespace, s.ClaimRef.Name)})
	case d.Kind == "VolumeSnapshotContent" && s.Driver == driver:
		handle := d.Status.Snapshot
		if handle == "" {
			handle = s.Source.Snapshot
		}
		if handle != "" { // else it is being taken
			l.Snapshots = append(l.Snapshots, Object{Handle: handle, Name: d.Metadata.Name, Claim: qualified(s.SnapshotRef.Namespace, s.SnapshotRef.Name)})
		}
	case d.Kind == "VolumeAttachment" && s.Attacher == driver && d.Status.Attached:
		l.Attachments = append(l.Attachments, Attachment{Name: d.Metadata.Name, PV: s.Source.PV, Node: s.NodeName})
	}
}

func qualified(namespace, name string) string {
	if name == "" {
		return ""
	}
	return namespace + "/" + name
}
