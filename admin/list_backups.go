package admin

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// BackupList lists the backups of a target.
var BackupList listing.Lister = backupList

// What the beginning of a backup is, compared with its name.
const (
	BackupAsNamed   = "as named"
	BackupEncrypted = "encrypted" // not read: without an identity
	BackupWrong     = "wrong"
)

var backupList = &listing.List[*adminpb.BackupsResponse, *adminpb.BackupFile]{
	Field: "backups",
	Rows:  (*adminpb.BackupsResponse).GetBackups,
	Item:  func(b *adminpb.BackupFile) proto.Message { return b },
	ID:    (*adminpb.BackupFile).GetName,
	Columns: []listing.Column[*adminpb.BackupFile]{
		{Name: "KIND", Cell: func(b *adminpb.BackupFile) any { return b.GetKind() }},
		{Name: "CLUSTER", Cell: func(b *adminpb.BackupFile) any { return b.GetCluster() }},
		{Name: "INCARNATION", Cell: func(b *adminpb.BackupFile) any { return b.GetIncarnation() }},
		{Name: "INCARNATION ID", Wide: true, Cell: func(b *adminpb.BackupFile) any { return b.GetIncarnationId() }},
		{Name: "SINCE", Cell: func(b *adminpb.BackupFile) any {
			if b.GetKind() != "increment" {
				return ""
			}
			return b.GetSince()
		}},
		{Name: "INDEX", Cell: func(b *adminpb.BackupFile) any { return b.GetIndex() }},
		{Name: "TIME", Cell: func(b *adminpb.BackupFile) any { return b.GetTime() }},
		{Name: "AGE", Wide: true, Since: (*adminpb.BackupFile).GetTime},
		{Name: "ENCRYPTED", Wide: true, Cell: func(b *adminpb.BackupFile) any { return b.GetEncrypted() }},
		{Name: "HEADER", Cell: func(b *adminpb.BackupFile) any { return b.GetHeader() }},
		{Name: "DETAIL", Wide: true, Cell: func(b *adminpb.BackupFile) any { return b.GetDetail() }},
		{Name: "NAME", Cell: func(b *adminpb.BackupFile) any { return b.GetName() }},
	},
	Selectors: []listing.Selector[*adminpb.BackupFile]{
		{Flag: "kind", Usage: "only backups of this `kind`: full, increment", Valid: []string{"full", "increment"}, Of: func(b *adminpb.BackupFile) []string { return []string{b.GetKind()} }},
		{Flag: "cluster", Usage: "only backups of the cluster with this `id`", Of: func(b *adminpb.BackupFile) []string { return []string{b.GetCluster()} }},
		listing.Conditions(
			listing.Condition[*adminpb.BackupFile]{Name: "as-named", Holds: func(b *adminpb.BackupFile) bool { return b.GetHeader() == BackupAsNamed }},
			listing.Condition[*adminpb.BackupFile]{Name: "encrypted", Holds: (*adminpb.BackupFile).GetEncrypted},
			listing.Condition[*adminpb.BackupFile]{Name: "wrong", Holds: func(b *adminpb.BackupFile) bool { return b.GetHeader() == BackupWrong }},
		),
	},
}
