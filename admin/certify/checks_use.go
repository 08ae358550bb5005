package certify

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// maxContext is the largest publish context, in bytes.
const maxContext = 4096

var publishedCheck = Check{
	Name: "a volume is published",
	Requests: func(w World) []Request {
		reqs := []Request{{VolumeChangeRequest: w.create("published"), As: "create"}}
		reqs = append(reqs, w.throughAll("publish", func() *adminpb.VolumeChangeRequest { return w.at("publish", "published", w.host(0)) })...)
		reqs = append(reqs,
			Request{VolumeChangeRequest: changed(w.at("publish", "published", w.host(0)), func(r *adminpb.VolumeChangeRequest) { r.ReadOnly = true }), As: "read-only"},
			Request{VolumeChangeRequest: w.of("delete", "published"), As: "delete"})
		if host := w.host(1); host != "" {
			reqs = append(reqs, Request{VolumeChangeRequest: w.at("publish", "published", host), As: "elsewhere"})
		}
		return append(reqs, w.throughAll("unpublish", func() *adminpb.VolumeChangeRequest { return w.at("unpublish", "published", w.host(0)) })...)
	},
	Rows: []RowCheck{
		{ID: "CSI-CTRL-ControllerPublishVolume-02", Says: "through every controller: OK", Judge: coded("publish", "OK")},
		{ID: "CSI-CTRL-ControllerPublishVolume-03", Says: "to the same node again: OK, with the same context", Judge: all(coded("publish", "OK"), same("publish", "the context", contextOf))},
		{ID: "CSI-CTRL-ControllerPublishVolume-24", Says: "the context of every repetition is the same", Judge: all(coded("publish", "OK"), same("publish", "the context", contextOf))},
		{ID: "CSI-CTRL-ControllerPublishVolume-12", Says: "the context has at most 4 KiB", Judge: all(coded("publish", "OK"), contextFits)},
		{ID: "CSI-CTRL-ControllerPublishVolume-18", Says: "to the same node for reading only: AlreadyExists", Judge: coded("read-only", "AlreadyExists")},
		{ID: "CSI-CTRL-ControllerPublishVolume-19", Says: "to another node: FailedPrecondition", Hosts: 2, Judge: coded("elsewhere", "FailedPrecondition")},
		{ID: "CSI-CTRL-ControllerPublishVolume-20", Says: "the refusal names the node that has it", Hosts: 2, Judge: all(coded("elsewhere", "FailedPrecondition"), namesNode)},
		{ID: "CSI-CTRL-DeleteVolume-07", Says: "deleted while it is published: FailedPrecondition", Judge: coded("delete", "FailedPrecondition")},
		{ID: "CSI-CTRL-ControllerUnpublishVolume-02", Says: "through every controller: OK", Judge: coded("unpublish", "OK")},
		{ID: "CSI-CTRL-ControllerUnpublishVolume-06", Says: "where it is published no more: OK", Judge: coded("unpublish", "OK")},
	},
}

func contextFits(o *Outcome) string {
	for _, c := range o.as("publish") {
		if len(c.Context) > maxContext {
			return fmt.Sprintf("it has %d bytes", len(c.Context))
		}
	}
	return ""
}

func namesNode(o *Outcome) string {
	node := o.as("publish")[0].Node
	if text := o.as("elsewhere")[0].Message; !strings.Contains(text, node) {
		return fmt.Sprintf("node %s has it, and the message is %q", node, text)
	}
	return ""
}

var expandedCheck = Check{
	Name: "a volume is expanded",
	Requests: func(w World) []Request {
		to := func(size int64) *adminpb.VolumeChangeRequest {
			return changed(w.of("expand", "expanded"), func(r *adminpb.VolumeChangeRequest) { r.SizeBytes = size })
		}
		return []Request{
			{VolumeChangeRequest: w.create("expanded"), As: "create"},
			{VolumeChangeRequest: to(2 * w.SizeBytes), As: "expand"},
			{VolumeChangeRequest: to(2 * w.SizeBytes), Through: 1, As: "expand"},
			{VolumeChangeRequest: to(w.SizeBytes), Through: 2, As: "expand"},
			{VolumeChangeRequest: to(beyondLargest), PlanOnly: true, As: "beyond the largest"},
		}
	},
	Rows: []RowCheck{
		{ID: "CSI-CTRL-ControllerExpandVolume-02", Says: "to the size that it has, and to a smaller one: OK, and it keeps its size", Judge: all(coded("expand", "OK"), same("expand", "the size", sizeOf))},
		{ID: "CSI-CTRL-ControllerExpandVolume-12", Says: "one unit above the largest volume: OutOfRange", Judge: coded("beyond the largest", "OutOfRange")},
	},
}
