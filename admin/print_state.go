package admin

import (
	"io"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// StateDocument writes the stream of State, in one of the output formats.
type StateDocument struct {
	W      io.Writer
	Format string
	doc    *Document
}

// Add writes one message of the stream.
func (d *StateDocument) Add(m *adminpb.StateResponse) (err error) {
	switch body := m.GetBody().(type) {
	case *adminpb.StateResponse_Header:
		d.doc, err = NewDocument(d.W, d.Format, body.Header, "nodes", "volumes", "snapshots", "group_snapshots", "volume_groups")
	case *adminpb.StateResponse_Node:
		err = d.doc.Item("nodes", body.Node)
	case *adminpb.StateResponse_Volume:
		err = d.doc.Item("volumes", body.Volume)
	case *adminpb.StateResponse_Snapshot:
		err = d.doc.Item("snapshots", body.Snapshot)
	case *adminpb.StateResponse_Group:
		err = d.doc.Item("group_snapshots", body.Group)
	case *adminpb.StateResponse_VolumeGroup:
		err = d.doc.Item("volume_groups", body.VolumeGroup)
	}
	return err
}

// End closes the document. It is called once, after the stream ended without an error.
func (d *StateDocument) End() error { return d.doc.End() }
