package admin

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// CertificateList lists certificates, and FenceList fences.
var (
	CertificateList listing.Lister = certificateList
	FenceList       listing.Lister = fenceList
)

var certificateList = &listing.List[*adminpb.CertificatesResponse, *adminpb.Certificate]{
	Field: "certificates",
	Rows:  (*adminpb.CertificatesResponse).GetCertificates,
	Item:  func(c *adminpb.Certificate) proto.Message { return c },
	ID:    func(c *adminpb.Certificate) string { return c.GetIssuer() + "/" + c.GetSerial() },
	Columns: []listing.Column[*adminpb.Certificate]{
		{Name: "IDENTITY", Cell: func(c *adminpb.Certificate) any { return c.GetRole() + "/" + c.GetName() }},
		{Name: "SERIAL", Cell: func(c *adminpb.Certificate) any { return c.GetSerial() }},
		{Name: "NOT AFTER", Cell: func(c *adminpb.Certificate) any { return c.GetNotAfter() }},
		{Name: "ISSUED", Wide: true, Cell: func(c *adminpb.Certificate) any { return c.GetIssued() }},
		{Name: "AGE", Wide: true, Since: (*adminpb.Certificate).GetIssued},
		{Name: "ISSUER", Cell: func(c *adminpb.Certificate) any { return c.GetIssuer()[:min(12, len(c.GetIssuer()))] },
			Full: func(c *adminpb.Certificate) any { return c.GetIssuer() }},
		{Name: "SEEN BY", Cell: func(c *adminpb.Certificate) any { return strings.Join(c.GetSeenBy(), ",") }},
		{Name: "CONDITION", Cell: func(c *adminpb.Certificate) any { return c.GetCondition() }},
	},
	Selectors: []listing.Selector[*adminpb.Certificate]{
		{Flag: "role", Usage: "only certificates of this `role`: controller, node, admin, operator, viewer", Valid: []string{"controller", "node", "admin", "operator", "viewer"},
			Of: func(c *adminpb.Certificate) []string { return []string{c.GetRole()} }},
		{Flag: "node", Usage: "only certificates of `node`", Of: func(c *adminpb.Certificate) []string {
			if c.GetRole() != "node" {
				return nil
			}
			return []string{c.GetName()}
		}},
		listing.Conditions(listing.Condition[*adminpb.Certificate]{Name: "abnormal", Holds: func(c *adminpb.Certificate) bool { return c.GetCondition() != "" }}),
	},
	Foot: func(a *adminpb.CertificatesResponse) (lines []string) {
		for _, r := range a.GetRevocations() {
			lines = append(lines, revocationLine(r))
		}
		for _, u := range a.GetUnknown() {
			lines = append(lines, "not asked: "+u)
		}
		return append(lines, atIndex(a)...)
	},
}

func revocationLine(r *adminpb.Revocation) string {
	what := strings.Join(r.GetSerials(), " ")
	if r.GetIssuedUntil() != "" {
		what = strings.TrimSpace("all issued until " + r.GetIssuedUntil() + " " + what)
	}
	return fmt.Sprintf("revoked at index %d: %s/%s, %s: %s", r.GetSince(), r.GetRole(), r.GetName(), what, cmp.Or(r.GetReason(), "no reason was given"))
}

var fenceList = &listing.List[*adminpb.FencesResponse, *adminpb.Fence]{
	Field: "fences",
	Rows:  (*adminpb.FencesResponse).GetFences,
	Item:  func(f *adminpb.Fence) proto.Message { return f },
	ID:    func(f *adminpb.Fence) string { return f.GetCidr() + " " + f.GetOwner() },
	Columns: []listing.Column[*adminpb.Fence]{
		{Name: "CIDR", Cell: func(f *adminpb.Fence) any { return f.GetCidr() }},
		{Name: "OWNER", Cell: func(f *adminpb.Fence) any { return f.GetOwner() }},
		{Name: "SINCE", Cell: func(f *adminpb.Fence) any { return f.GetSince() }},
		{Name: "HOLDS", Cell: func(f *adminpb.Fence) any { return f.GetHolds() }},
		{Name: "HOSTS", Cell: func(f *adminpb.Fence) any { return strings.Join(f.GetHosts(), " ") }},
		{Name: "WAITS FOR", Cell: func(f *adminpb.Fence) any { return f.GetWaitsFor() }},
	},
	Selectors: []listing.Selector[*adminpb.Fence]{
		{Flag: "node", Usage: "only fences that bind a host of `node`", Of: func(f *adminpb.Fence) []string {
			return mapSlice(f.GetHosts(), func(h string) string { node, _, _ := strings.Cut(h, "/"); return node })
		}},
		listing.Conditions(
			listing.Condition[*adminpb.Fence]{Name: "holds", Holds: (*adminpb.Fence).GetHolds},
			listing.Condition[*adminpb.Fence]{Name: "waits", Holds: func(f *adminpb.Fence) bool { return !f.GetHolds() }},
		),
	},
	Foot: atIndex[*adminpb.FencesResponse],
}
