package admin

import (
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// toleranceCell shows how many may stop without a loss, and without that it cannot be used.
func toleranceCell(t *adminpb.Tolerance) string { return fmt.Sprintf("%d/%d", t.GetLoss(), t.GetUse()) }

func rebootSafeTable(w io.Writer, a *adminpb.RebootSafeResponse) {
	answer := "may be rebooted now"
	if !a.GetSafe() {
		answer = "MAY NOT be rebooted now"
	}
	fmt.Fprintf(w, "node %s (host %s) %s\n", a.GetNode(), a.GetHostId(), answer)
	for _, reason := range a.GetReasons() {
		fmt.Fprintf(w, "- %s\n", listing.OneLine(reason))
	}
	for _, p := range a.GetPublications() {
		fmt.Fprintf(w, "volume %s (%s) is published here: the orchestrator moves it\n", p.GetVolume(), listing.OneLine(p.GetName()))
	}
	if a.GetMore() > 0 {
		fmt.Fprintf(w, "and %s more\n", groupDigits(a.GetMore()))
	}
	if a.GetClaimed() != 0 {
		fmt.Fprintf(w, "it is in maintenance since index %d, until its next boot\n", a.GetClaimed())
	}
	if len(a.GetInMaintenance()) > 0 {
		fmt.Fprintf(w, "in maintenance: %s\n", strings.Join(a.GetInMaintenance(), ", "))
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}

func outOfServiceTable(w io.Writer, a *adminpb.OutOfServiceResponse) {
	switch {
	case a.GetSince() == 0 && len(a.GetRefused()) == 0:
		fmt.Fprintf(w, "node %s (host %s) is in service, and may be taken out\n", a.GetNode(), a.GetHostId())
	case a.GetSince() == 0:
		fmt.Fprintf(w, "node %s (host %s) is in service, and may not be taken out\n", a.GetNode(), a.GetHostId())
	case a.GetProven():
		fmt.Fprintf(w, "node %s (host %s) is out of service since index %d: NOTHING that it writes is acknowledged\n", a.GetNode(), a.GetHostId(), a.GetSince())
	default:
		fmt.Fprintf(w, "node %s (host %s) is out of service since index %d: it is not proven that nothing it writes is acknowledged\n", a.GetNode(), a.GetHostId(), a.GetSince())
	}
	for _, why := range append(a.GetRefused(), a.GetWaits()...) {
		fmt.Fprintf(w, "- %s\n", listing.OneLine(why))
	}
	for _, e := range a.GetEnded() {
		fmt.Fprintf(w, "volume %s, generation %d: %s\n", e.GetVolume(), e.GetGeneration(), listing.OneLine(e.GetReason()))
	}
	if a.GetReturnWaits() != "" {
		fmt.Fprintf(w, "it may not return: %s\n", listing.OneLine(a.GetReturnWaits()))
	}
	if a.GetMore() > 0 {
		fmt.Fprintf(w, "and %s more\n", groupDigits(a.GetMore()))
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}
