// Products of matrices whose numbers lie any distance apart, on several threads.
#include <vector>

#include "crew.h"
#include "kernels.h"
#include "program.h"

namespace {

// Multiply-adds, of which each of several threads has as many: some 5 microseconds' work.
constexpr double MANY_PRODUCTS = 1 << 18;

// d[rows, columns] (+)= a[rows, count] b[count, columns], numbers any distance apart.
void product_of_some(float* d, long ldd, const float* a, long ai, long ak, const float* b, long bk, long bj,
                     long rows, long count, long columns, bool more) {
    const Kernels& k = kernels();
    if (columns == 1) bj = 1;
    if (rows == 1) ai = 1;
    if (count == 1) ak = bk = 1;
    if (columns == 1 && rows > 1 && ldd == 1) {  // a matrix and a vector: as a vector and a matrix
        if (ak == 1 && bk == 1) return k.dots(d, rows, b, count, a, ai, 1, count, rows, more);
        if (ai == 1) return k.product(d, rows, b, 1, bk, a, ak, 1, count, rows, more);
    }
    if (ak == 1 && bk == 1 && (bj != 1 || columns == 1))
        return k.dots(d, ldd, a, ai, b, bj, rows, count, columns, more);
    if (bj == 1) return k.product(d, ldd, a, ai, ak, b, bk, rows, count, columns, more);
    std::vector<float> copy(count * columns);
    for (long i = 0; i < count; i++)
        for (long j = 0; j < columns; j++) copy[i * columns + j] = b[i * bk + j * bj];
    k.product(d, ldd, a, ai, ak, copy.data(), columns, rows, count, columns, more);
}

}  // namespace

void product(float* d, long ldd, const float* a, long ai, long ak, const float* b, long bk, long bj,
             long rows, long count, long columns, bool more) {
    const double work = (double)rows * count * columns;
    if (columns == 1 && rows > 1 && ldd == 1)  // columns are few
        return in_parts(rows, 64, work, MANY_PRODUCTS, [&](long at, long end) {
            product_of_some(d + at, ldd, a + at * ai, ai, ak, b, bk, bj, end - at, count, columns, more);
        });
    in_parts(columns, 64, work, MANY_PRODUCTS, [&](long at, long end) {
        product_of_some(d + at, ldd, a, ai, ak, b + at * bj, bk, bj, rows, count, end - at, more);
    });
}
