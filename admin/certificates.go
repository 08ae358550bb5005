package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// expirySoon is how long before its end a certificate is shown to expire.
const expirySoon = 14 * 24 * time.Hour

// Certificates returns what the controllers see, and what is revoked.
func (s *Server) Certificates(ctx context.Context, _ *adminpb.CertificatesRequest) (*adminpb.CertificatesResponse, error) {
	at, members, err := s.members(ctx)
	if err != nil {
		return nil, err
	}
	resp := &adminpb.CertificatesResponse{Index: at}
	st := s.Cluster.Fork()
	for r := range st.Revocations() {
		resp.Revocations = append(resp.Revocations, revocationView(r))
	}
	for _, m := range members {
		if m.Err != nil {
			resp.Unknown = append(resp.Unknown, fmt.Sprintf("%s: %v", cmp.Or(m.Name, m.MemberID), m.Err))
		}
	}
	for _, c := range certificatesSeen(members) {
		resp.Certificates = append(resp.Certificates, c.view(st, time.Now()))
	}
	return resp, nil
}

// seenCertificate is a certificate, and the controllers that see it.
type seenCertificate struct {
	Certificate
	by []string
}

// certificatesSeen are the certificates that members see, each once, in order of role, name and serial number.
func certificatesSeen(members []Member) (all []seenCertificate) {
	at := map[Certificate]int{}
	for _, m := range members {
		for _, c := range m.Certificates {
			i, known := at[c]
			if !known {
				i = len(all)
				at[c] = i
				all = append(all, seenCertificate{Certificate: c})
			}
			if !slices.Contains(all[i].by, m.Name) {
				all[i].by = append(all[i].by, m.Name)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b seenCertificate) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Serial, b.Serial))
	})
	return all
}

func (c *seenCertificate) view(st *fsm.State, now time.Time) *adminpb.Certificate {
	view := &adminpb.Certificate{
		Role: c.Role, Name: c.Name, Serial: c.Serial, Issued: timeView(c.Issued), NotAfter: timeView(c.NotAfter), Issuer: c.Issuer,
		SeenBy: c.by, Condition: expiryText(c.Certificate, now),
	}
	if r, ok := st.Revocation(c.Role, c.Name); ok && r.Covers(c.Serial, c.Issued) {
		view.Condition = "revoked"
	}
	return view
}

// ExpiresWithin tells whether a certificate has less left than a time, and less than a third of its life: what is made for an hour is
// not about to expire when it is made, and what renews itself has done so before that. One that does not say when it was issued is
// judged by the time alone. The alert on certificates has the same rule.
func ExpiresWithin(within time.Duration, issued, notAfter, now time.Time) bool {
	if !issued.IsZero() {
		within = min(within, notAfter.Sub(issued)/3)
	}
	return notAfter.Sub(now) <= within
}

// expiryText says that a certificate is about to expire; empty when it is not.
func expiryText(c Certificate, now time.Time) string {
	if c.NotAfter.IsZero() || !ExpiresWithin(expirySoon, c.Issued, c.NotAfter, now) {
		return ""
	}
	return "certificate expires on " + timeView(c.NotAfter)
}

// noteExpiry notes of nodes that the certificate of their session is about to expire.
func (s *Server) noteExpiry(ctx context.Context, nodes []*adminpb.Node) {
	asking, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	newest := map[string]Certificate{}
	for _, m := range s.Cluster.Members(asking, 0) {
		for _, c := range m.Certificates {
			if c.Role == "node" && c.NotAfter.After(newest[c.Name].NotAfter) {
				newest[c.Name] = c
			}
		}
	}
	for _, n := range nodes {
		n.Certificate = expiryText(newest[n.GetId()], time.Now())
	}
}

func revocationView(r *fsm.Revocation) *adminpb.Revocation {
	return &adminpb.Revocation{
		Role: r.Role, Name: r.Name, Serials: r.Serials, IssuedUntil: untilView(r.IssuedUntil), Since: r.Since, Reason: r.Reason,
	}
}

// untilView is a time as a command takes it, without zeros behind the seconds; empty: none.
func untilView(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
