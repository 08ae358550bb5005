package admin

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func leaksTable(w io.Writer, a *adminpb.LeaksResponse) {
	row(w, "KIND", "ID", "NAME", "RECORD", "CLAIM", "SIZE", "NODES", "MADE", "BY", "LAST USE", "REMEDY")
	for _, f := range a.GetFound() {
		leakRow(w, f)
	}
	for _, f := range a.GetYoung() {
		if f.Detail = "too young to be in the list"; f.GetMade() == "" {
			f.Detail = "not known when it was made: look at it before you remove it"
		}
		leakRow(w, f)
	}
	row(w, fmt.Sprintf("%d compared, %d found", a.GetChecked(), len(a.GetFound())))
	row(w, "not counted: volumes that operators made, and what is too young or of unknown age")
	for _, what := range a.GetNotCompared() {
		row(w, "not compared: "+what)
	}
}

func leakRow(w io.Writer, f *adminpb.Leak) {
	size := ""
	if f.GetSizeBytes() > 0 {
		size = formatSize(f.GetSizeBytes())
	}
	row(w, f.GetKind(), f.GetId(), f.GetName(), f.GetRecord(), f.GetClaim(), size, strings.Join(f.GetNodes(), ","), f.GetMade(), f.GetMadeBy(),
		f.GetLastUse(), cmp.Or(f.GetRemedy(), f.GetDetail()))
}
