#include "dynet/dynet.h"
#include "dynet/training.h"
#include "dynet/expr.h"
#include "dynet/model.h"
#include "dynet/param-init.h"
#include <fstream>
#include <iostream>
using namespace dynet; using namespace std;
template<class T> void run(ParameterCollection& m, T& tr, LookupParameter E, Parameter W, const char* name, int mode){
  if(mode==1) tr.exponential_moving_average(0.75f, 1);
  if(mode==2) tr.cumulative_moving_average(2);
  for(int i=0;i<3;i++){
    ComputationGraph cg; 
    Expression w=parameter(cg,W); Expression e=lookup(cg,E,i%2);
    Expression l=dot_product(w,e)+squared_norm(w); 
    cg.forward(l); cg.backward(l); tr.update();
  }
  ofstream o(name); tr.save(o); o.close();
}
int main(int argc,char**argv){
  DynetParams p; p.random_seed=1; initialize(p);
#define GO(T,N,MODE) { ParameterCollection m; Parameter W=m.add_parameters({2}, ParameterInitConst(0.5f)); LookupParameter E=m.add_lookup_parameters(3,{2}, ParameterInitConst(0.25f)); T tr(m); run(m,tr,E,W,N,MODE); }
  GO(SimpleSGDTrainer,"SimpleSGD.trainer",0)
  GO(CyclicalSGDTrainer,"CyclicalSGD.trainer",0)
  GO(MomentumSGDTrainer,"MomentumSGD.trainer",0)
  GO(AdagradTrainer,"Adagrad.trainer",0)
  GO(AdadeltaTrainer,"Adadelta.trainer",0)
  GO(RMSPropTrainer,"RMSProp.trainer",0)
  GO(AdamTrainer,"Adam.trainer",0)
  GO(AmsgradTrainer,"Amsgrad.trainer",0)
  GO(MomentumSGDTrainer,"MomentumSGD-exponential.trainer",1)
  GO(AdamTrainer,"Adam-cumulative.trainer",2)
  { ParameterCollection m; Parameter W=m.add_parameters({2}, ParameterInitConst(0.5f)); EGTrainer tr(m); 
    for(int i=0;i<3;i++){ComputationGraph cg; Expression w=parameter(cg,W); Expression l=squared_norm(w)+pick(w,0u); cg.forward(l); cg.backward(l); tr.update();}
    ofstream o("EG.trainer"); tr.save(o); auto v=as_vector(*W.values()); cerr<<v[0]<<" "<<v[1]<<endl; }
}
