package alter

import (
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// ReportRefused reports findings about the commands of an ALTER TABLE that DSQL refuses and Sluice does not carry out.
// It does not report VALIDATE CONSTRAINT in an ALTER TABLE ASYNC, which DSQL accepts.
func (d *Draft) ReportRefused() {
	a, isColumn := d.Steps.(*Alteration)
	if d.Steps != nil && !isColumn {
		return
	}
	var ph parse.TokenList
	for cmd := range d.Node.List("cmds") {
		f := RefusedFeature(cmd)
		if f == finding.Validate && ph.Tokens == nil {
			ph = d.tokens()
		}
		if isColumn && (f == finding.AddColumn || f == finding.AddSerial || f == finding.AlterType && a.Retypes) {
			continue
		}
		if f != "" && (f != finding.Validate || !ph.AreKeywords(0, "alter", "table", "async")) {
			d.addFinding(finding.Refused(f, d.Start))
		}
	}
}

// refusedAlters maps the ALTER TABLE commands that DSQL refuses in every form to the features that they use.
var refusedAlters = map[parse.AlterTableType]finding.Feature{
	parse.AT_AlterColumnType:    finding.AlterType,
	parse.AT_SetNotNull:         finding.SetNotNullColumn,
	parse.AT_ValidateConstraint: finding.Validate,
	parse.AT_EnableRowSecurity:  finding.RowSecurity,
	parse.AT_ForceRowSecurity:   finding.RowSecurity,
	parse.AT_AddInherit:         finding.Inheritance,
	parse.AT_AttachPartition:    finding.Partitions,
	parse.AT_DetachPartition:    finding.Partitions,
	parse.AT_SetUnLogged:        finding.UnloggedTable,
	parse.AT_SetTableSpace:      finding.Tablespace,
}

// RefusedFeature returns the feature for which DSQL refuses an ALTER TABLE command, or "" if DSQL accepts the command.
func RefusedFeature(cmd parse.TreeNode) finding.Feature {
	kind := parse.AlterTableType(cmd.Integer("subtype"))
	def := cmd.Child("def")
	switch kind {
	case parse.AT_AddColumn:
		if _, ok := parse.SerialType(def); ok {
			return finding.AddSerial
		}
		if finding.IsRefusedType(parse.ColumnTypeName(def)) {
			return finding.ColumnType
		}
		if parse.IdentityConstraint(def).Shape != nil {
			return finding.AddSerial
		}
		for constraint := range def.List("constraints") {
			if constraint.Integer("contype") != int(parse.CONSTR_NULL) && !onlyNullConstraints(def) {
				return finding.AddColumn
			}
		}
	case parse.AT_AddConstraint:
		switch parse.ConstrType(def.Integer("contype")) {
		case parse.CONSTR_CHECK, parse.CONSTR_FOREIGN:
			if !def.Flag("skip_validation") {
				return finding.AddConstraint
			}
		case parse.CONSTR_UNIQUE:
			if def.Text("indexname") == "" {
				return finding.AddConstraint
			}
		case parse.CONSTR_PRIMARY:
			return finding.AddPrimaryKey
		case parse.CONSTR_EXCLUSION:
			return finding.Exclusion
		default:
			return finding.AddConstraint
		}
	}
	return refusedAlters[kind]
}
