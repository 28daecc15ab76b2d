// Lets Spark ask a Python data source for the columns that a query needs, and for no others, and for
// the number of rows if a query only counts them.
//
// Spark's own scan of a Python source always has all columns, and its plan of a read, once made, is
// kept for all queries of a data frame, also for those with other filters. Here each query gets a
// scan of its own. Spark's compiler of generated code, Janino, compiles this file on the driver.
package commitlog.spark;

import java.lang.reflect.Field;
import java.sql.Timestamp;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.Option;
import scala.Product;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/** Makes the optimizer rule of a session. */
public final class ColumnPruning extends AbstractFunction1 {
    final String format;
    final Field source;

    /** Fails if this release of Spark builds tables in another way. */
    public ColumnPruning(String format) throws NoSuchFieldException {
        this.format = format;
        source = PythonTable.class.getDeclaredField("ds");
        source.setAccessible(true);
    }

    @Override
    public Object apply(Object session) {
        return new TablesThatPrune();
    }

    /** Runs before Spark builds the scans. */
    public final class TablesThatPrune extends Rule {
        @Override
        public TreeNode apply(TreeNode plan) {
            return ((LogicalPlan) plan).transform(new Replacement());
        }
    }

    public final class Replacement extends AbstractPartialFunction {
        @Override
        public boolean isDefinedAt(Object node) {
            if (!(node instanceof DataSourceV2Relation)) {
                return false;
            }
            Object table = ((DataSourceV2Relation) node).table();
            return table.getClass() == PythonTable.class
                    && ((PythonTable) table).name().equals(format);
        }

        @Override
        public Object applyOrElse(Object node, Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            DataSourceV2Relation relation = (DataSourceV2Relation) node;
            Object[] parts = new Object[relation.productArity()];
            for (int at = 0; at < parts.length; at++) {
                Object part = relation.productElement(at);
                parts[at] = part == relation.table() ? pruning((PythonTable) part) : part;
            }
            return relation.makeCopy(parts);
        }

        private PruningTable pruning(PythonTable table) {
            try {
                return new PruningTable((PythonDataSourceV2) source.get(table), table);
            } catch (IllegalAccessException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    static final class PruningTable extends PythonTable {
        private final PythonDataSourceV2 source;

        PruningTable(PythonDataSourceV2 source, PythonTable table) {
            super(source, table.name(), table.schema());
            this.source = source;
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new PruningScanBuilder(source, name(), schema(), options);
        }
    }

    /** The source of one scan: it shares nothing but the Python object with those of others. */
    static final class ScanSource extends PythonDataSourceV2 {
        private final PythonDataSourceV2 shared;

        ScanSource(PythonDataSourceV2 shared) {
            this.shared = shared;
        }

        @Override
        public UserDefinedPythonDataSource source() {
            return shared.source();
        }

        @Override
        public PythonDataSourceCreationResult getOrCreateDataSourceInPython(
                String name, CaseInsensitiveStringMap options, Option schema) {
            return shared.getOrCreateDataSourceInPython(name, options, schema);
        }
    }

    static final class PruningScanBuilder
            implements SupportsPushDownAggregates,
                    SupportsPushDownFilters,
                    SupportsPushDownRequiredColumns {
        private final PythonDataSourceV2 source;
        private final String format;
        private final StructType schema;
        private final CaseInsensitiveStringMap options;
        private Filter[] filters = new Filter[0];
        private PythonScanBuilder builder;

        PruningScanBuilder(
                PythonDataSourceV2 source,
                String format,
                StructType schema,
                CaseInsensitiveStringMap options) {
            this.source = source;
            this.format = format;
            this.schema = schema;
            this.options = options;
            builder = builderOf(schema);
        }

        private PythonScanBuilder builderOf(StructType columns) {
            return new PythonScanBuilder(new ScanSource(source), format, columns, options);
        }

        /** Leaves to Spark the filters whose times Python's datetime cannot represent. */
        @Override
        public Filter[] pushFilters(Filter[] given) {
            List taken = new ArrayList();
            List left = new ArrayList();
            for (Filter filter : given) {
                if (isRepresentable(filter)) {
                    taken.add(filter);
                } else {
                    left.add(filter);
                }
            }
            filters = (Filter[]) taken.toArray(new Filter[0]);
            if (filters.length > 0) {
                left.addAll(Arrays.asList(builder.pushFilters(filters)));
            }
            return (Filter[]) left.toArray(new Filter[0]);
        }

        private static boolean isRepresentable(Object value) {
            if (value instanceof Timestamp) {
                return isInRange(((Timestamp) value).getTime() / 1000);
            }
            if (value instanceof Instant) {
                return isInRange(((Instant) value).getEpochSecond());
            }
            if (value instanceof Object[]) {
                for (Object each : (Object[]) value) {
                    if (!isRepresentable(each)) {
                        return false;
                    }
                }
            }
            if (value instanceof Filter) {
                Product parts = (Product) value;
                for (int at = 0; at < parts.productArity(); at++) {
                    if (!isRepresentable(parts.productElement(at))) {
                        return false;
                    }
                }
            }
            return true;
        }

        /** The years 1 to 9999, without a week at both ends for time zones and calendars. */
        private static boolean isInRange(long seconds) {
            return seconds > -62134992000L && seconds < 253401696000L;
        }

        @Override
        public Filter[] pushedFilters() {
            return builder.pushedFilters();
        }

        /**
         * Also keeps the columns of pushed filters, which Spark needs to describe them to Python,
         * and for a query of no column the partition: PySpark makes an object of each empty row.
         */
        @Override
        public void pruneColumns(StructType required) {
            Set wanted = new HashSet(Arrays.asList(required.fieldNames()));
            for (Filter filter : filters) {
                wanted.addAll(Arrays.asList(filter.references()));
            }
            if (wanted.isEmpty()) {
                wanted.add("partition");
            }
            StructType columns = new StructType();
            for (StructField field : schema.fields()) {
                if (wanted.contains(field.name())) {
                    columns = columns.add(field);
                }
            }
            if (columns.length() == schema.length()) {
                return;
            }
            builder = builderOf(columns);
            if (filters.length > 0) {
                builder.pushFilters(filters);
            }
        }

        /** Takes a count of all rows: each task returns its number of rows, and Spark adds them. */
        @Override
        public boolean pushAggregation(Aggregation aggregation) {
            AggregateFunc[] wanted = aggregation.aggregateExpressions();
            if (filters.length > 0
                    || aggregation.groupByExpressions().length > 0
                    || wanted.length != 1
                    || !(wanted[0] instanceof CountStar)) {
                return false;
            }
            builder = builderOf(new StructType().add("count(*)", DataTypes.LongType, false));
            return true;
        }

        @Override
        public Scan build() {
            return builder.build();
        }
    }
}
